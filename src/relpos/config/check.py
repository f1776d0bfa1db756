"""Finds values of a composed configuration that their keys may not hold, and keys that a constructor does not take."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, get_args, get_origin, is_typeddict

from hydra.utils import get_object

from relpos.config.schema import COMMANDS, Arguments, As
from relpos.errors import RelposError, nearest
from relpos.ranges import check, rules, shown
from relpos.trust import find


@cache
def keys_of(command: str) -> dict[str, Any]:
    """Key → annotation, at the top level of a command's configuration."""
    return {key: annotation for part in COMMANDS.get(command, ()) for key, annotation in rules(part).items()}


def mistakes(plain: Mapping[str, Any], command: str) -> Iterator[tuple[str, RelposError]]:
    """(key, error) for every wrong value and unknown key."""
    yield from _mistakes(plain, keys_of(command), "")


def _mistakes(values: Mapping[str, Any], annotations: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, RelposError]]:
    for key, value in values.items():
        path, annotation = f"{prefix}{key}", annotations.get(key, Any)
        if isinstance(value, Mapping) and "_target_" in value:
            yield from _of_target(value, path)
        elif isinstance(value, Sequence) and any(isinstance(item, Mapping) and "_target_" in item for item in value):
            for number, item in enumerate(value):
                if isinstance(item, Mapping) and "_target_" in item:
                    yield from _of_target(item, f"{path}.{number}")
        elif group := _group(annotation):
            if isinstance(value, Mapping):
                yield from _mistakes(value, group, f"{path}.")
            else:
                names = ", ".join(f"{path}.{name}" for name in group)
                yield path, RelposError(f"{path}={shown(value)}: it has keys of its own, {names}")
        elif not key.startswith("_"):
            try:
                check(path, value, _resolved(annotation))
            except RelposError as error:
                yield path, error


def _group(annotation: Any) -> Mapping[str, Any]:
    """Key → annotation of a group that has no `_target_`; empty where the annotation is not a group's."""
    if is_typeddict(annotation):
        return rules(annotation)
    for mark in get_args(annotation)[1:] if get_origin(annotation) is Annotated else ():
        if isinstance(mark, Arguments):
            return {**rules(get_object(mark.target)), **(rules(mark.more) if mark.more else {})}
    return {}


def _resolved(annotation: Any) -> Any:
    """The annotation itself, or the one of another module that it stands for (`As`)."""
    marks = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((get_object(mark.name) for mark in marks if isinstance(mark, As)), annotation)


def _of_target(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, RelposError]]:
    """The keys beside a `_target_` are arguments of that constructor."""
    try:
        target = find(node["_target_"], path.split(".")[0], f"{path}._target_")
    except RelposError as error:
        yield f"{path}._target_", error
        return
    parameters = inspect.signature(target).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        for key in node:
            if not key.startswith("_") and key not in parameters:
                yield f"{path}.{key}", RelposError(f"unknown key '{path}.{key}'.{nearest(key, parameters)}")
    yield from _mistakes(node, rules(target), f"{path}.")
