"""What Hydra is told of a sweep: it writes the whole configuration, and the overrides that were
typed, into `multirun.yaml`."""

from __future__ import annotations

import os
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, flag_override

from relpos.process import KEYS

VARIABLE = "RELPOS_SWEEP"
"""Environment variables of this name and a number: values that overrides of the sweep refer to."""


class KeepsKeys(Callback):
    """Puts values that may be keys into environment variables, which launchers of sweeps hand on, and
    references in their place."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Called before anything is written. The configuration of each run is composed anew, from
        these overrides."""
        flags = ["struct", "readonly"]
        with flag_override(config, flags, False), flag_override(config.hydra, flags, False):
            config.pop("logger", None)
            config.hydra.job.override_dirname = ""  # the words once more
            typed, parser = config.hydra.overrides.task, OverridesParser.create()
            for number, word in enumerate(typed):
                if not KEYS.fullmatch(word) or (override := parser.parse_override(word)).is_sweep_override():
                    continue
                key, _, text = word.partition("=")
                if isinstance(value := override.value(), str):  # which need not have been in quotes
                    text = "'" + value.replace("'", "\\'") + "'"
                os.environ[f"{VARIABLE}{number}"] = text
                typed[number] = f"{key}='${{oc.decode:${{oc.env:{VARIABLE}{number}}}}}'"
