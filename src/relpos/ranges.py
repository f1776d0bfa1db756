"""The values that are allowed stand once, in the annotation of the argument that takes them: `k:
Annotated[int, at_least(0)]`.

A constructor under `@checked` holds its arguments to its annotations. A configuration, and what a
file describes, are held to the same annotations before any work, see `relpos.trust.mistakes`. int,
float, bool, str, None, Literal, unions, lists and mappings of these are understood; an argument
with any other annotation, or with none, may be anything.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, wraps
from pathlib import Path
from pkgutil import resolve_name
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    TypeGuard,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from relpos.errors import RelposError, nearest

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """Which numbers are allowed; `text` stands behind `a number` or `a whole number` in a
    message."""

    text: str
    least: float
    most: float = math.inf
    without: tuple[float, ...] = ()

    def holds(self, value: float) -> bool:
        return self.least <= value <= self.most and value not in self.without


def at_least(low: float) -> Range:
    """low ≤ x."""
    return Range(f"of {low} or more", low)


def between(low: float, high: float) -> Range:
    """low ≤ x ≤ high."""
    return Range(f"from {low} to {high:,}", low, high)


@dataclass(frozen=True)
class Arguments:
    """Marks a group without a `_target_`: its keys are the arguments of a class, which `module:name`
    may name, and those of `further`."""

    target: str | type
    further: type | None = None


ByName = Mapping[str, object]
"""The keys of a group or the arguments of a function: their values, or their annotations."""
Target = Callable[..., object] | Arguments
"""What has arguments with annotations: a function, a class, a TypedDict, or `Arguments`."""


@dataclass(frozen=True)
class As:
    """Marks a dial whose annotation is `module:name`, which is imported only when it is needed."""

    name: str


CONTENT = "content"
"""The one argument of a command that is given its configuration as a whole, with interpolations."""
ONE_OR_MORE = "one or more"
"""Marks a list of which a single word may be typed without brackets."""
Names = Annotated[list[str], ONE_OR_MORE]
Node = dict[str, Any]
"""A class by its `_target_`, and its arguments."""
Count = Annotated[int, at_least(1)]
Natural = Annotated[int, at_least(0)]
Positive = Annotated[float, Range("above 0", 0, without=(0,))]
NotNegative = Annotated[float, at_least(0)]
Rate = Annotated[float, Range("from 0 up to, not including, 1", 0, 1, (1,))]
Share = Annotated[float, Range("between 0 and 1", 0, 1, (0, 1))]
Fraction = Annotated[float, Range("above 0 and up to 1", 0, 1, (0,))]
Length = Annotated[int, at_least(8)]
"""Tokens of a sequence; fewer have no room for two sentences and their marks."""
Width = Annotated[int, between(1, 1_000_000)]
"""Of vectors and tables. A network of wider ones can be described, but the number of its weights no
longer fits into 64 bits."""
Batch = Annotated[int, between(1, 1_000_000)]
"""Examples of one step."""
Threads = Annotated[int, between(1, 1024)]
"""OpenMP answers with a segmentation fault where it cannot start as many as it is told to."""
Seeds = Annotated[int, between(1, 1000)] | list[Natural]
"""A number of seeds, or the seeds. Each is a training, and its plan is made before the first one
begins."""
LARGEST = 2**63 - 1
"""The largest whole number that torch, numpy and the counter hash take."""
PLAIN: Mapping[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a word",
    Path: "a path",
    types.NoneType: "null",
}
"""Type → its name in messages."""


def check(key: str, value: object, annotation: object) -> None:
    """Refuses a value that its annotation does not allow.

    Raises:
        RelposError: `key=value: what is expected`, with the nearest right word where words are
            expected.
    """
    annotation = resolved_type(annotation)
    if fits(value, annotation):
        return
    if isinstance(value, int) and abs(value) > LARGEST:
        raise RelposError(f"{key}={value}: no number above {LARGEST:,} can be used")
    expected = f"{describe(annotation)} is expected"
    hint = nearest(str(value), _words(annotation))
    if "Did you mean" in hint:
        expected += f".{hint}"
    raise RelposError(f"{key}={shown(value)}: {expected}")


def resolved_type(annotation: object) -> object:
    """The annotation, or the one that its mark `As` names."""
    mark = mark_of(annotation, As)
    return resolve_name(mark.name) if mark else annotation


def mark_of(annotation: object, kind: type[T]) -> T | None:
    """The mark of this kind of an `Annotated` type; None where it has none, or is another type."""
    marks = getattr(annotation, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, kind)), None)


def checked(constructor: Callable[P, T]) -> Callable[P, T]:
    """Decorates a function: its arguments are checked against their annotations before it runs."""

    @wraps(constructor)
    def refusing(*args: P.args, **kwargs: P.kwargs) -> T:
        arguments = inspect.signature(constructor).bind(*args, **kwargs).arguments
        for name, annotation in rules(constructor).items():
            if name in arguments:
                check(name, arguments[name], annotation)
        return constructor(*args, **kwargs)

    return refusing


@cache
def accepted(target: Target) -> tuple[ByName, bool]:
    """Argument → annotation, `object` where it has none; and whether the target takes other names,
    too."""
    if isinstance(target, Arguments):
        named = target.target
        arguments = dict(accepted(resolve_name(named) if isinstance(named, str) else named)[0])
        if target.further:
            arguments |= rules(target.further)
        return arguments, False
    # a command that is given its whole configuration
    if whole := mark_of(rules(target).get(CONTENT), Arguments):
        return accepted(whole)
    if is_typeddict(target):
        return rules(target), False
    parameters = inspect.signature(target).parameters.values()
    untyped: dict[str, object] = {
        parameter.name: object
        for parameter in parameters
        if parameter.kind is not parameter.VAR_KEYWORD
    }
    # A constructor that takes any keyword passes it to another one, which checks it.
    return {**untyped, **rules(target)}, len(untyped) < len(parameters)


@cache
def rules(target: Callable[..., object]) -> ByName:
    """Argument → annotation, of a function, a TypedDict or a class's constructor; empty where an
    annotation cannot be resolved."""
    try:
        annotated: object = target
        # the annotations of a TypedDict or a dataclass are its keys
        if inspect.isclass(target) and not (is_typeddict(target) or is_dataclass(target)):
            annotated = target.__init__
        hints = get_type_hints(annotated, include_extras=True)
        if is_dataclass(target):
            hints = {part.name: hints[part.name] for part in fields(target) if part.init}
    # A class of the user's may name types that are only imported for a type checker.
    except NameError:
        return {}
    result: dict[str, object] = {}
    for name, hint in hints.items():
        if get_origin(hint) is Unpack:  # **config: Unpack[Pretrain]
            result |= rules(get_args(hint)[0])
        elif name != "return":
            result[name] = hint
    return result


def parsed(shape: Callable[..., T], values: ByName) -> T:
    """An object of a dataclass from values that have been checked, which stay as they are; groups of
    keys become objects of their own dataclasses, and other keys are left out.

    Raises:
        RelposError: a value is missing.
    """
    arguments: dict[str, object] = {}
    for part in fields(shape):  # type: ignore[arg-type]
        if part.name not in values:
            if part.default is MISSING and part.default_factory is MISSING:
                raise RelposError(f"{part.name} is missing")
            continue
        value = arguments[part.name] = values[part.name]
        group = resolved_type(rules(shape)[part.name])
        if isinstance(value, Mapping) and isinstance(group, type) and is_dataclass(group):
            arguments[part.name] = parsed(group, value)
    return shape(**arguments)


def with_words(
    values: ByName,
    annotations: ByName,
) -> dict[str, object]:
    """The values; numbers are turned into words where words are expected: YAML reads `account=1234`
    as a number. Of `Names` a single word becomes a list."""

    def worded(value: object, annotation: object) -> object:
        if value is None:
            return None
        if annotation in (Names, Names | None, Sequence[str]) and _is_list(value):
            return [str(item) for item in value]
        if annotation in (Names, Names | None):
            return [str(value)]
        if annotation in (str, str | None):
            return str(value)
        return value

    return {key: worded(value, annotations.get(key)) for key, value in values.items()}


def fits(value: object, annotation: object) -> bool:
    """Whether the annotation allows the value. A bool does not count as a number, nor do infinity
    and NaN."""
    origin = get_origin(annotation)
    args = get_args(annotation)
    if origin is Annotated:
        if ONE_OR_MORE in args and not _is_list(value):
            return fits(value, str)
        numbers = mark_of(annotation, Range)
        return fits(value, args[0]) and (
            numbers is None or (isinstance(value, int | float) and numbers.holds(value))
        )
    if origin in (Union, types.UnionType):
        return any(fits(value, arg) for arg in args)
    if origin is Literal:
        return any(value == word and type(value) is type(word) for word in args)
    if annotation in PLAIN:
        return _is_plain(value, annotation)
    if origin is tuple and Ellipsis not in args:
        return _is_list(value) and len(value) == len(args) and all(map(fits, value, args))
    if origin in (list, tuple, Sequence):
        return _is_list(value) and all(fits(item, args[0]) for item in value)
    if origin in (dict, Mapping):
        return isinstance(value, Mapping) and all(fits(item, args[1]) for item in value.values())
    if origin is Callable:  # in a configuration, a node that names it
        return callable(value) or isinstance(value, Mapping)
    return True


def _is_plain(value: object, kind: object) -> bool:
    """Whether a value is of a type of `PLAIN`. `account=1234` is a word, too; YAML takes it for a
    number."""
    if isinstance(value, bool) or value is None or kind is bool:
        return type(value) is kind
    if kind is str:
        return isinstance(value, str | int | float)
    if kind is Path:
        return isinstance(value, str | Path)
    if isinstance(value, int):
        return kind in (int, float) and abs(value) <= LARGEST
    return kind is float and isinstance(value, float) and math.isfinite(value)


def describe(annotation: object) -> str:
    """The values that an annotation allows, in words."""
    origin = get_origin(annotation)
    args = get_args(annotation)
    if annotation == Names:
        return f"a word or {describe(list[str])}"
    if origin is Annotated:
        numbers = mark_of(annotation, Range)
        return f"{describe(args[0])} {numbers.text}" if numbers else describe(args[0])
    if origin in (Union, types.UnionType, Literal):
        words = list(map(str if origin is Literal else describe, args))
        if len(words) == 1:
            return words[0]
        return f"{', '.join(words[:-1])} or {words[-1]}"
    if origin is tuple and Ellipsis not in args:
        return f"a list of {len(args)}, each {describe(args[0])},"
    if origin in (list, tuple, Sequence):
        return f"a list [{describe(args[0])}, …]"
    if origin in (dict, Mapping):
        return "a group of keys {key: value}"
    if origin is Callable:
        return "{_target_: module.Class}"
    if annotation in PLAIN:
        return PLAIN[annotation]
    return "something else"


def shown(value: object) -> str:
    """The value as it is typed on the command line: `null`, `true`, `[1, 2]`; in one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(str(value).splitlines())


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _words(annotation: object) -> Iterator[str]:
    """The words that an annotation lists."""
    for arg in get_args(annotation):
        if get_origin(annotation) is Literal:
            yield str(arg)
        elif not isinstance(arg, Range):
            yield from _words(arg)
