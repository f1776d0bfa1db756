"""Keeps keys of services out of `multirun.yaml`, into which Hydra writes the whole configuration of
a sweep and the typed overrides."""

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
    """Moves values that may be keys into environment variables, which launchers of sweeps inherit,
    and leaves references in their place."""

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Changes the overrides before anything is written; the configuration of each run is
        composed from them."""
        flags = ["struct", "readonly"]
        with flag_override(config, flags, False), flag_override(config.hydra, flags, False):
            config.pop("logger", None)
            config.hydra.job.override_dirname = ""  # it repeats the overrides
            typed, parser = config.hydra.overrides.task, OverridesParser.create()
            for number, word in enumerate(typed):
                if (
                    not KEYS.fullmatch(word)
                    or (override := parser.parse_override(word)).is_sweep_override()
                ):
                    continue
                key, _, text = word.partition("=")
                if isinstance(value := override.value(), str):  # in quotes or not
                    text = "'" + value.replace("'", "\\'") + "'"
                os.environ[f"{VARIABLE}{number}"] = text
                typed[number] = f"{key}='${{oc.decode:${{oc.env:{VARIABLE}{number}}}}}'"
