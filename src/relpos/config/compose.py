"""Composes the checked configuration of a command from its overrides."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from relpos.config import quick
from relpos.config.arguments import rewritten, spelled
from relpos.config.check import check, one_line
from relpos.config.conf import OWN, commands, conf_dir, defaults_of, function_of, key_of
from relpos.errors import refuse_unknown
from relpos.ranges import CONTENT, rules, with_words
from relpos.readers import Plain
from relpos.trust import outside, targets, trust

TRAININGS = ("pretrain", "finetune")
"""Commands that train a network."""


def compose(command: str, overrides: Sequence[str] = ()) -> DictConfig:
    """The configuration that `relpos COMMAND OVERRIDES…` would use.

    Args:
        command: a primary configuration: `pretrain`, `finetune`, `data`, `params`, `reproduce`.
        overrides: as typed on the command line.

    Raises:
        RelposError: an override is wrong; the message names it and the nearest right word.
    """
    cfg = OmegaConf.create(composed(command, overrides))
    # As in Hydra's own configurations, reading a missing key is an error.
    OmegaConf.set_struct(cfg, True)
    return cfg


def composed(command: str, overrides: Sequence[str] = ()) -> Plain:
    """`compose` as plain values; interpolations are left as they are, for `resolved`. The
    configuration of a training has `scheme`, the typed word for its position scheme."""
    refuse_unknown("unknown command", command, commands())
    overrides = rewritten(command, overrides)
    with one_line(command, overrides):
        try:
            content = quick.merged(command, overrides)
            config = quick.resolved(content)
        except quick.LeftToHydra:
            # Hydra composes what only it understands, and words its own errors.
            cfg = _by_hydra(command, overrides)
            content, config = _plain(cfg, resolve=False), _plain(cfg)
    # The values are checked, but interpolations are returned: they must follow when a table changes
    # the seed.
    check(config, command, overrides)
    if command in TRAININGS:
        # the typed word, which loggers show
        content["scheme"] = defaults_of(command)["position"]
        for override in overrides:
            if key_of(override) == "position":
                content["scheme"] = override.partition("=")[2]
    return content


def resolved(content: DictConfig | Plain) -> Plain:
    """A new dict of the values of a configuration, with its interpolations resolved.

    Raises:
        OmegaConfBaseException: an interpolation leads nowhere, or a value is missing.
    """
    try:
        return quick.resolved(unresolved(content))
    except quick.LeftToHydra:
        if not isinstance(content, DictConfig):
            content = OmegaConf.create(dict(content))
        return _plain(content)


def unresolved(content: DictConfig | Plain) -> Plain:
    """The content as plain values, with its interpolations."""
    if isinstance(content, DictConfig):
        return _plain(content, resolve=False)
    return dict(content)


def _by_hydra(command: str, overrides: Sequence[str]) -> DictConfig:
    # inside `hydra.main`
    if GlobalHydra.instance().is_initialized():
        GlobalHydra.instance().clear()
    search = [f"hydra.searchpath={spelled(OWN)}"] if OWN else []
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        cfg = hydra_compose(command, overrides=[*overrides, *search])
    if OWN:  # the user trusts the classes that the user's own option files name
        trust(*outside(name for _, name in targets(_plain(cfg, resolve=False))))
    return cfg


def called(command: str, overrides: Sequence[str]) -> str:
    """The result of a command that trains nothing, called with overrides as on the command line."""
    return str(call(command, composed(command, overrides)))


def call(command: str, content: Plain) -> object:
    """What the function of a command returns for a checked configuration, with its interpolations.
    A function that plans runs gets it as a whole: an intermediate task resolves it anew."""
    function = function_of(command)
    if [*signature(function).parameters] == [CONTENT]:
        return function(content)
    return function(**with_words(resolved(content), rules(function)))


def _plain(cfg: DictConfig, resolve: bool = True) -> Plain:
    return dict(OmegaConf.to_container(cfg, resolve=resolve, throw_on_missing=resolve))  # type: ignore[arg-type]
