"""Keeps keys of services out of `multirun.yaml`, into which Hydra writes the whole configuration of
a sweep and the typed overrides."""

from __future__ import annotations

import os

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, flag_override

from relpos.config.arguments import spelled
from relpos.process import KEYS

VARIABLE = "RELPOS_SWEEP"
"""Environment variables of this name and a number: values that overrides of the sweep refer to."""


class KeepsKeys(Callback):
    """Moves values that may be keys into environment variables, which launchers of sweeps inherit,
    and leaves references in their place."""

    def on_multirun_start(self, config: DictConfig, **_: object) -> None:
        """Changes the overrides before anything is written; the configuration of each run is
        composed from them."""
        flags = ["struct", "readonly"]
        with flag_override(config, flags, False), flag_override(config.hydra, flags, False):
            for holder in ("logger", "overrides"):
                config.pop(holder, None)
            config.hydra.job.override_dirname = ""  # it repeats the overrides
            overrides = config.hydra.overrides
            params = config.hydra.sweeper.get("params") or {}
            swept = [f"{key}={value}" for key, value in params.items()]
            for word in filter(KEYS.match, swept):  # the sweeper reads them before the typed ones
                del params[word.partition("=")[0]]
                overrides.task.insert(0, word)
            overrides.task = [_moved(word) for word in overrides.task]
            overrides.hydra = [
                word
                for word in overrides.hydra
                if not (KEYS.match(word) and ".params" in word.partition("=")[0])
            ]
            # the configuration has the values of these already
            for number, word in enumerate(overrides.hydra):
                if (reference := _moved(word)) != word:
                    key, value = reference.split("=", 1)
                    overrides.hydra[number] = reference
                    OmegaConf.update(config, key.lstrip("+"), value.strip("'"))


def _moved(word: str) -> str:
    """The override with references in place of its values, if these may be keys."""
    if not KEYS.search(word):
        return word
    parser = OverridesParser.create()
    override = parser.parse_override(word)
    if override.is_sweep_override() and not override.is_choice_sweep():
        return word  # a range or an interval of numbers, or a pattern of options' names
    key, _, text = word.partition("=")
    texts = [text]
    if override.is_choice_sweep():
        texts = [str(choice) for choice in override.sweep_string_iterator()]
    references = [
        _reference(parser.parse_override(f"{key}={text}").value(), text) for text in texts
    ]
    return f"{key}={','.join(references)}"


def _reference(value: object, text: str) -> str:
    """A reference to a new environment variable with a value, whose text in an override is given
    for what is no string; the parts of a dict have one each, as Hydra merges it into a group."""
    if isinstance(value, dict):
        parts = [f"{name}: {_reference(part, spelled(part))}" for name, part in value.items()]
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, str):  # in quotes or not
        text = "'" + value.replace("'", "\\'") + "'"
    variable = f"{VARIABLE}{sum(name.startswith(VARIABLE) for name in os.environ)}"
    os.environ[variable] = text
    return f"'${{oc.decode:${{oc.env:{variable}}}}}'"
