"""Composes a configuration as Hydra does, in a fiftieth of its time.

A plan composes hundreds of configurations. Hydra takes a tenth of a second for each, and two thirds
of that even if every file is parsed only once: it composes its own configuration as well, and makes
an object of every value. This module reads the files of `conf` once and merges plain values. It
handles `GROUP=OPTION` and `KEY=VALUE`; everything else, mistakes included, is left to Hydra, which
so decides what an override means. The tests compare the two for every option of every group.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache, reduce
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import OverrideType
from hydra.errors import OverrideParseException

from relpos.config.conf import conf_dir, conf_file, defaults_of, package_of
from relpos.readers import Plain

OPTION = re.compile(r"\w+")
INNERMOST = re.compile(r"\$\{([^${}]*)\}")
"""An interpolation without another one inside."""
PLAIN = re.compile(r"(?!null$)[\w./-]+", re.IGNORECASE)
"""A default that is its own value, unlike null, of which OmegaConf makes None, and unlike text in
quotes."""


class LeftToHydra(Exception):
    """Raised for a composition or an interpolation that Hydra and OmegaConf must handle."""


def merged(command: str, overrides: Sequence[str]) -> Plain:
    """A new configuration as plain values with their interpolations, unchecked.

    Raises:
        LeftToHydra: an override does more than choose an option or change the value of a key, or it
            is wrong.
    """
    primary = _file(command)
    entries = defaults_of(command)
    values = []
    for override in overrides:
        key, _, option = override.partition("=")
        if key not in entries:
            values.append(override)
        elif OPTION.fullmatch(option):
            entries[key] = option
        # A list, null or a mistake, which Hydra handles.
        else:
            raise LeftToHydra
    result: Plain = {}
    for entry, option in entries.items():
        if isinstance(option, list):  # several options of a group, by default none
            if option:
                raise LeftToHydra
            continue
        group, _, package = entry.partition("@")
        # `recipe: ${size}` follows the option chosen for another group, which an override may have
        #     changed.
        option = re.sub(r"\$\{(\w+)\}", lambda match: entries[match[1]], option)
        content = _option(group, option)
        # `pretrain.recipe` is a group in a group: the innermost is wrapped first.
        for part in reversed((package or package_of(group, option)).split(".")):
            content = {part: content}
        _merge(result, content)
    # Last, because `_self_` ends the defaults of every command: its own file wins over its groups.
    _merge(result, primary)
    del result["defaults"]
    for override in values:
        _set(result, override)
    return result


def _option(group: str, name: str) -> Plain:
    """The content of an option, merged over that of the options on which it is based."""
    result: Plain = {}
    content = _file(f"{group}/{name}")
    for parent in content.get("defaults", ["_self_"]):
        _merge(result, content if parent == "_self_" else _option(group, parent))
    result.pop("defaults", None)
    return result


def _file(name: str) -> Plain:
    if not (conf_dir() / f"{name}.yaml").is_file():
        raise LeftToHydra
    return conf_file(name)


def _merge(into: Plain, content: Plain) -> None:
    for key, value in content.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = deepcopy(value)


def _set(content: Plain, override: str) -> None:
    """Gives an existing key another value."""
    path, value = _parsed(override)
    *groups, key = path.split(".")
    node: Any = reduce(_inside, groups, content)
    _inside(node, key)
    # A copy, because the parsed override is cached, and the caller may change the configuration.
    node[int(key) if isinstance(node, list) else key] = deepcopy(value)


@cache
def _parsed(override: str) -> tuple[str, object]:
    """Key and value of `KEY=VALUE`."""
    try:
        (parsed,) = OverridesParser.create().parse_overrides([override])
    except OverrideParseException as error:
        raise LeftToHydra from error
    value = parsed.value()
    is_change = (
        parsed.type is OverrideType.CHANGE
        and not parsed.is_sweep_override()
        and parsed.package is None
    )
    if not is_change or isinstance(value, dict) or parsed.key_or_group.startswith("hydra"):
        raise LeftToHydra
    return parsed.key_or_group, value


def _inside(node: Any, key: str) -> Any:
    """The value under a key, or at a place of a list."""
    try:
        return node[int(key) if isinstance(node, list) else key]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise LeftToHydra from error


def resolved(content: Plain) -> Plain:
    """A new dict of the content with a value in place of each interpolation.

    Raises:
        LeftToHydra: an interpolation leads nowhere or is of a kind that `conf` does not use, or a
            value is missing (`???`).
    """
    try:
        return {key: _resolved(value, content, (key,)) for key, value in content.items()}
    except RecursionError as error:
        raise LeftToHydra from error


def _resolved(node: object, root: Plain, path: tuple[str, ...]) -> object:
    if isinstance(node, Mapping):
        return {key: _resolved(value, root, (*path, key)) for key, value in node.items()}
    if isinstance(node, list):
        return [_resolved(value, root, (*path, str(place))) for place, value in enumerate(node)]
    if not isinstance(node, str) or ("${" not in node and node != "???"):
        return node
    # OmegaConf has rules for escaped dollars, and a message for missing values.
    if "\\$" in node or node == "???":
        raise LeftToHydra
    text = node
    while match := INNERMOST.search(text):
        value = _value(match[1], root, path)
        if match[0] == text:
            return value
        # OmegaConf writes true and null in another way, and never reads a value as a further
        # interpolation.
        if value is None or isinstance(value, bool) or set(str(value)) & set("${}:"):
            raise LeftToHydra
        text = f"{text[: match.start()]}{value}{text[match.end() :]}"
    if "${" in text:
        raise LeftToHydra
    return text


def _value(expression: str, root: Plain, path: tuple[str, ...]) -> object:
    """The value of the expression between the braces of an interpolation at `path`."""
    resolver, colon, arguments = expression.partition(":")
    if not colon:
        return _at(expression, root, path)
    name, comma, default = (part.strip() for part in arguments.partition(","))
    if resolver == "oc.env" and PLAIN.fullmatch(default):
        return os.getenv(name, default)
    if resolver != "oc.select" or not comma:
        raise LeftToHydra
    try:
        return _at(name, root, path)
    except LeftToHydra:
        return _parsed(f"default={default}")[1]  # in Hydra's grammar: 1e-05 is a number


def _at(name: str, root: Plain, path: tuple[str, ...]) -> object:
    """The value of a key; dots before it lead up from `path`."""
    key = name.lstrip(".")
    up = len(name) - len(key)
    parts = (*(path[:-up] if up else ()), *key.split("."))
    return _resolved(reduce(_inside, parts, root), root, parts)
