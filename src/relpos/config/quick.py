"""What Hydra composes, in a fiftieth of its time.

A plan composes hundreds of configurations. Hydra takes a tenth of a second for each, and two thirds of that even if every file is
parsed only once: it composes its own configuration as well, and makes an object of every value. Here the files of `conf` are read
once and merged as plain values. Only `GROUP=OPTION` and `KEY=VALUE` are understood; everything else, mistakes included, is left to
Hydra, which so decides what an override means. The tests compare the two for every option of every group.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import OverrideType
from hydra.errors import OverrideParseException

from relpos.config.conf import conf_dir, conf_file, package_of

OPTION = re.compile(r"(?P<group>\w+)(?P<package>@[\w.]+)?=(?P<option>\w+)")
INNERMOST = re.compile(r"\$\{([^${}]*)\}")
"""An interpolation that has no other one inside."""
PLAIN = re.compile(r"(?!null$)[\w./-]+", re.IGNORECASE)
"""A default that stands for itself: OmegaConf makes None of null, and takes quotes away."""


class LeftToHydra(Exception):
    """This composition, or this interpolation, is Hydra's and OmegaConf's business."""


def merged(command: str, overrides: Sequence[str]) -> dict[str, Any]:
    """The configuration as plain values with their interpolations; it is not checked, and the caller's own.

    Raises:
        LeftToHydra: an override does more than to choose an option or to change the value of a key; or is wrong.
    """
    primary = _file(command)
    entries = {key: option for entry in primary["defaults"] if isinstance(entry, dict) for key, option in entry.items()}
    values = []
    for override in overrides:
        match = OPTION.fullmatch(override)
        if match and (match["group"] + (match["package"] or "")) in entries:
            entries[override.partition("=")[0]] = match["option"]
        # A group, but not with the name of one option: a list, null or a slip. Hydra knows what each means.
        elif override.partition("=")[0] in entries:
            raise LeftToHydra
        else:
            values.append(override)
    result: dict[str, Any] = {}
    for entry, option in entries.items():
        if isinstance(option, list):  # several options of a group, by default none
            if option:
                raise LeftToHydra
            continue
        group, _, package = entry.partition("@")
        # `recipe: ${size}` follows the option chosen for another group, which an override may have changed.
        option = re.sub(r"\$\{(\w+)\}", lambda other: entries[other[1]], option)
        content = _option(group, option)
        # `pretrain.recipe` is a group in a group: the innermost is wrapped first.
        for part in reversed((package or package_of(group, option)).split(".")):
            content = {part: content}
        _merge(result, content)
    # Last, because `_self_` ends the defaults of every command: what its own file says wins over its groups.
    _merge(result, {key: value for key, value in primary.items() if key != "defaults"})
    for override in values:
        _set(result, override)
    return result


def _option(group: str, name: str) -> dict[str, Any]:
    """The content of an option, after that of the options of its group that it is based on."""
    result: dict[str, Any] = {}
    content = _file(f"{group}/{name}")
    for parent in content.get("defaults", ["_self_"]):
        _merge(result, {k: v for k, v in content.items() if k != "defaults"} if parent == "_self_" else _option(group, parent))
    return result


def _file(name: str) -> Mapping[str, Any]:
    if not (conf_dir() / f"{name}.yaml").is_file():
        raise LeftToHydra
    return conf_file(name)


def _merge(into: dict[str, Any], content: Mapping[str, Any]) -> None:
    for key, value in content.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = deepcopy(value)


def _set(content: dict[str, Any], override: str) -> None:
    """Gives a key that is there another value."""
    *groups, key = _parsed(override)[0].split(".")
    node: Any = content
    for group in groups:
        node = _inside(node, group)
    _inside(node, key)
    # A copy: the parsed override is cached, and the caller may change what it gets.
    node[int(key) if isinstance(node, list) else key] = deepcopy(_parsed(override)[1])


@cache
def _parsed(override: str) -> tuple[str, Any]:
    """Key and value of `KEY=VALUE`."""
    try:
        (parsed,) = OverridesParser.create().parse_overrides([override])
    except OverrideParseException as error:
        raise LeftToHydra from error
    value = parsed.value()
    is_change = parsed.type is OverrideType.CHANGE and not parsed.is_sweep_override() and parsed.package is None
    if not is_change or isinstance(value, dict) or parsed.key_or_group.startswith("hydra"):
        raise LeftToHydra
    return parsed.key_or_group, value


def _inside(node: Any, key: str) -> Any:
    """The value under a key, or at a place of a list."""
    try:
        return node[int(key) if isinstance(node, list) else key]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise LeftToHydra from error


def resolved(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with a value in the place of each interpolation; the caller's own.

    Raises:
        LeftToHydra: an interpolation leads nowhere or is one that `conf` does not use; or a value is missing (`???`).
    """
    try:
        return {key: _resolved(value, content, (key,)) for key, value in content.items()}
    except RecursionError as error:
        raise LeftToHydra from error


def _resolved(node: Any, root: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    if isinstance(node, Mapping):
        return {key: _resolved(value, root, (*path, key)) for key, value in node.items()}
    if isinstance(node, list):
        return [_resolved(value, root, (*path, str(place))) for place, value in enumerate(node)]
    if not isinstance(node, str) or ("${" not in node and node != "???"):
        return node
    # OmegaConf has rules for escaped dollars, and a message for missing values, which are not repeated here.
    if "\\$" in node or node == "???":
        raise LeftToHydra
    text = node
    while match := INNERMOST.search(text):
        value = _value(match[1], root, path)
        if match[0] == text:
            return value
        # OmegaConf spells true and null in another way, and never reads a value as a further interpolation.
        if value is None or isinstance(value, bool) or set(str(value)) & set("${}:"):
            raise LeftToHydra
        text = f"{text[: match.start()]}{value}{text[match.end() :]}"
    if "${" in text:
        raise LeftToHydra
    return text


def _value(said: str, root: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """What stands for `said` between the braces of an interpolation at `path`."""
    resolver, colon, arguments = said.partition(":")
    if not colon:
        return _at(said, root, path)
    name, comma, default = (part.strip() for part in arguments.partition(","))
    if resolver == "oc.env" and PLAIN.fullmatch(default):
        return os.environ.get(name, default)
    if resolver != "oc.select" or not comma:
        raise LeftToHydra
    try:
        return _at(name, root, path)
    except LeftToHydra:
        return _parsed(f"default={default}")[1]  # in Hydra's grammar: 1e-05 is a number


def _at(name: str, root: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value of a key; dots before it lead up from `path`."""
    key = name.lstrip(".")
    up = len(name) - len(key)
    parts = (*(path[:-up] if up else ()), *key.split("."))
    node: Any = root
    for part in parts:
        node = _inside(node, part)
    return _resolved(node, root, parts)
