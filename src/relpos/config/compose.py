"""Overrides → a checked configuration. Hydra composes it; here every mistake becomes one line with the nearest right word.

Hydra itself lets three kinds of mistake through: `+typo=1`, values of the wrong kind, and interpolations that lead nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache, lru_cache
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from relpos.config.arguments import rewritten
from relpos.config.check import mistakes
from relpos.config.conf import conf_dir, options
from relpos.config.given_network import OF_SCHEME, refuse_overrides
from relpos.config.schema import COMMANDS, SHORT
from relpos.errors import RelposError, nearest

NO_NAME = re.compile(r"null|true|false|[-+.\d]*|\[.*|\{.*")
"""Values that cannot be the name of an option; Hydra answers them with a traceback."""
KEY = re.compile(r"[+]{0,2}[a-zA-Z_][\w./@:-]*")
OF_HYDRA = re.compile(r"hydra(/\w+)?")
DIGITS = re.compile(r"\d{1000}")
LONGEST = 250
"""Characters of an option's name at most: file systems allow no longer ones."""
PLAIN = re.compile(r"(?!hydra\b)[a-z_][\w.]*=")
"""The beginning of an override that gives a key another value; whether the key is a group's name is checked apart."""


def compose(command: str, overrides: Sequence[str] = ()) -> DictConfig:
    """The configuration that `relpos COMMAND OVERRIDES…` would use.

    Args:
        command: a primary configuration: `pretrain`, `finetune`, `data`, `params`, `reproduce`.
        overrides: as typed on the command line.

    Raises:
        RelposError: an override is wrong; it is named, with the nearest right word.
    """
    if command not in COMMANDS:
        raise RelposError(f"unknown command {command!r}.{nearest(command, COMMANDS)}")
    overrides = rewritten(command, overrides)
    with one_line(command, overrides):
        if any("hydra.searchpath" in override for override in overrides):  # the user's own option files may change meanwhile
            cfg = _composed(command, overrides)
        else:
            cfg = _composed_once(command, tuple(overrides)).copy()
    return check(cfg, command, overrides)


@lru_cache(maxsize=128)
def _composed_once(command: str, overrides: tuple[str, ...]) -> DictConfig:
    """The composed configuration, cached: a caller copies it before changing it."""
    groups = options()
    chosen = tuple(override for override in overrides if override.partition("=")[0] in groups)
    if chosen != overrides and all(override in chosen or PLAIN.match(override) for override in overrides):
        with suppress(HydraException, OmegaConfBaseException):  # the composition below says what is wrong
            return _with_values(_composed_once(command, chosen), [override for override in overrides if override not in chosen])
    return _composed(command, overrides)


def _with_values(composed: DictConfig, overrides: Sequence[str]) -> DictConfig:
    """Sets `seed=3` and the like as Hydra does after composing the options; that composition takes ten times as long."""
    cfg = deepcopy(composed)
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        if override.is_sweep_override():
            raise HydraException("a sweep")
        OmegaConf.update(cfg, override.key_or_group, override.value(), merge=True)
    return cfg


def _composed(command: str, overrides: Sequence[str]) -> DictConfig:
    if GlobalHydra.instance().is_initialized():  # inside `hydra.main`: a table composes its rows there
        GlobalHydra.instance().clear()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return hydra_compose(command, overrides=list(overrides))


def check(cfg: DictConfig, command: str, overrides: Sequence[str]) -> DictConfig:
    """Refuses unknown keys, impossible values, and overrides about a network that comes from a folder; returns the configuration.

    Raises:
        RelposError: names the key or override and, where there is one, the nearest right one.
    """
    for group, key in SHORT.items():
        if group in cfg and not OmegaConf.is_dict(cfg[group]):  # `intermediate=none` is short for `intermediate.task=none`
            cfg[group] = dict.fromkeys(_defaults(command)[group]) | {key: cfg[group]}
    with one_line(command, overrides):
        plain: Any = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    added = [override.lstrip("+").partition("=")[0] for override in overrides if override.startswith("+")]
    if added:
        reference = compose(command, [override for override in overrides if not override.startswith("+")])
        known = set(_keys(OmegaConf.to_container(reference, resolve=False)))
        for key in added:
            if key.replace("/", ".") not in known and not _belongs_to_target(plain, key):
                raise _unknown_key(key, known)
    errors: dict[str, RelposError] = {}
    for key, error in mistakes(plain, command):
        errors.setdefault(key, error)
    if errors:  # a key that the user typed comes before one that takes its value from it by interpolation
        typed = [override.lstrip("+").partition("=")[0].replace("/", ".") for override in overrides]
        raise errors[next((key for key in typed if key in errors), next(iter(errors)))]
    refuse_overrides(command, overrides, plain)
    return cfg


class one_line:
    """Turns what Hydra and OmegaConf raise into a RelposError of one line."""

    def __init__(self, command: str, overrides: Sequence[str]) -> None:
        self.command, self.overrides = command, overrides

    def __enter__(self) -> None:
        for override in self.overrides:
            _check_form(override)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, OverrideParseException):
            raise RelposError(
                f"{error.override}: the value cannot be read. If it is a text with spaces or other signs than letters, digits and "
                f"._-/:, it needs quotes of its own: \"{error.override.partition('=')[0]}='…'\""
            ) from error
        if isinstance(error, MissingConfigException):
            raise RelposError(_unknown_option(str(error), self.command)) from error
        if isinstance(error, ConfigCompositionException) and (key := re.search(r"Could not override '([^']+)'", str(error))):
            known = _keys(OmegaConf.to_container(_composed_once(self.command, ()), resolve=False))
            raise _unknown_key(key[1], set(known)) from error
        if isinstance(error, MissingMandatoryValue):
            raise RelposError(f"{error.full_key} must be given") from error
        if isinstance(error, HydraException | OmegaConfBaseException):
            raise RelposError(" ".join(str(error).split("\n")[:1])) from error


def _check_form(override: str) -> None:
    """Refuses what is no KEY=VALUE, and values that Hydra answers with a traceback.

    Raises:
        RelposError: names the override.
    """
    key, equals, value = override.partition("=")
    if override.startswith("~"):
        raise RelposError(f"{override}: every key is needed; give it another value, {key.lstrip('~') or 'KEY'}=VALUE")
    if not equals or not KEY.fullmatch(key):
        raise RelposError(f"{override!r}: overrides have the form KEY=VALUE, without spaces around the =")
    if DIGITS.search(value):  # Python refuses to read as many
        raise RelposError(f"{key}={value[:20]}…: a number of more than 1,000 digits")
    is_group = key in options() or (OF_HYDRA.fullmatch(key) and value != "null")
    if is_group and (NO_NAME.fullmatch(value) or max(map(len, value.split(","))) > LONGEST):
        raise RelposError(f"{override}: the name of an option is expected.{nearest('', options().get(key, ()))}")


def _unknown_key(key: str, known: set[str]) -> RelposError:
    """The error for a key that the command does not have, with the nearest right one; where none is close, it lists the top level.

    The same key in another group is suggested first. Commands that open a trained network have no keys that describe another one.
    """
    if "network" in known and key.split(".")[0] in OF_SCHEME - known:
        return RelposError(f"{key}: the network comes from network=, where this override changes nothing")
    elsewhere = sorted(path for path in known if "." in path and path.rpartition(".")[2] == key.rpartition(".")[2])
    if elsewhere:
        return RelposError(f"unknown key {key!r}. Did you mean {' or '.join(map(repr, elsewhere[:3]))}?")
    tail = nearest(key, known)
    return RelposError(
        f"unknown key {key!r}.{tail if 'Did you mean' in tail else nearest(key, {k for k in known if '.' not in k})}"
    )


@cache
def _defaults(command: str) -> Any:
    """The command's configuration without overrides."""
    return OmegaConf.to_container(_composed_once(command, ()), resolve=True)


def _unknown_option(message: str, command: str) -> str:
    match = re.search(r"Could not find '([^']+)'", message)
    if not match:  # --config-name and --config-path
        return message.partition("\n")[0]
    group, _, option = match[1].rpartition("/")
    known = set(re.findall(r"^\t(\S+)$", message, flags=re.M)) or set(options().get(group, ()))
    if known:
        return f"unknown {group} {option!r}.{nearest(option, known)}"
    name = group or option
    return f"unknown group {name!r}.{nearest(name, options())}"


def _keys(node: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield f"{prefix}{key}"
            yield from _keys(value, f"{prefix}{key}.")


def targets(node: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every node with a `_target_`, under its path (`position.parts.0`)."""
    if isinstance(node, Mapping) and "_target_" in node:
        yield path, node
    inside = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inside:
        yield from targets(value, f"{path}.{key}".lstrip("."))


def _belongs_to_target(plain: Mapping[str, Any], key: str) -> bool:
    return any(key.startswith(f"{path}.") for path, _ in targets(plain))


def names(value: Any) -> list[str] | None:
    """`rows=none`, `rows=[none,absolute]` or, for all of them, None."""
    return None if value is None else [str(name) for name in (value if OmegaConf.is_list(value) else [value])]
