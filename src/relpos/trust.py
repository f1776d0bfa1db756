"""The names that a file may give. Model folders, records, tables and tasks travel between people,
so a name in them is data.

Every `_target_`, and every other dotted name of a file, is looked up here: in the modules of relpos
that define such things, and in the modules that the user has named on the command line. Nothing
else is imported, and nothing else is called.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import partial
from importlib import import_module
from typing import Any, TypeGuard, get_args, is_typeddict

from relpos.errors import RelposError, nearest, one_line
from relpos.ranges import Arguments, ByName, Target, accepted, check, mark_of, resolved_type, shown

VARIABLE = "RELPOS_TRUST"
"""Environment variable with the trusted modules. Workers, ranks and jobs of a cluster inherit it
from the command."""
NETWORK = "network"
"""A word for `trust=` that is no module: files may fetch data and models, and log online."""
NAMING = ("_target_", "metric")
"""Last parts of the keys that name a class or a function."""
RESOLVER = re.compile(r"\$\{[^}]*[:{]")
"""An interpolation that calls a function of OmegaConf's or of ours, as `${oc.env:HOME}`, or may do
so: `${${key}:HOME}`."""
DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclass(frozen=True)
class NameKind:
    """A kind of class or function that a key names.

    Args:
        modules: those of relpos (with what lies below them) that define it.
        base: dotted name of the class from which it inherits; empty for any class.
        function: it is a function and no class; where there is a base, other modules may also give
            a class with that base.
    """

    modules: tuple[str, ...]
    base: str = ""
    function: bool = False


KINDS = {
    "position": NameKind(("relpos.model.position",), "relpos.model.position.base.Scheme"),
    "conv": NameKind(("relpos.model.conv",), "relpos.model.conv.base.Conv"),
    "data": NameKind(("relpos.data.source",)),
    "objective": NameKind(("relpos.data.objective",), "relpos.data.objective.Objective"),
    "task": NameKind(("relpos.data.tasks", "relpos.data.own_task")),
    "metric": NameKind(("relpos.train.metrics",), function=True),
    "logger": NameKind(
        ("relpos.train.loggers",),
        "lightning_fabric.loggers.logger.Logger",
        function=True,
    ),
    # Not all of Lightning's callbacks: some write where an argument says.
    "callbacks": NameKind(
        (
            "pytorch_lightning.callbacks.early_stopping",
            "pytorch_lightning.callbacks.lr_monitor",
        ),
        "pytorch_lightning.callbacks.callback.Callback",
    ),
    "pairs": NameKind(("relpos.data.pairs",)),
    "kind": NameKind(("relpos.measures.kinds", "relpos.measures.maps", "relpos.commands.analyze")),
    "engine": NameKind(("relpos.launch",)),
}
"""Part of a key → what it names."""


def trust(*modules: str) -> None:
    """Lets files name what these modules define, in this process and in those that it starts.

    Raises:
        RelposError: one of them is not the name of a module.
    """
    for module in modules:
        if not DOTTED.fullmatch(module):
            raise RelposError(
                f"trust={module}: the name of a module is expected, as in trust=my_module"
            )
    os.environ[VARIABLE] = ",".join(dict.fromkeys([*_trusted(), *modules]))


def trust_typed(arguments: Iterable[str]) -> list[str]:
    """Trusts what the user has typed: the modules of `trust=…`, and those in overrides such as
    `position._target_=my_module.Mine`.

    Returns:
        The arguments without `trust=…`.
    """
    overrides = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        names = [name.strip(" '\"") for name in value.strip("[]").split(",")]
        # Taken out here, because no configuration has this key.
        if key.lstrip("+") == "trust":
            trust(*names)
            continue
        overrides.append(argument)
        if key.rpartition(".")[2] in NAMING:
            trust(*outside(names))
    return overrides


def outside(names: Iterable[object]) -> list[str]:
    """The modules of these dotted names, without those of relpos."""
    modules = dict.fromkeys(str(name).rpartition(".")[0] for name in names)
    return [
        module for module in modules if DOTTED.fullmatch(module) and not _below(module, ["relpos"])
    ]


def refuse_names(overrides: Iterable[str]) -> None:
    """Refuses overrides of a file that name something outside relpos, or read the environment.

    Raises:
        RelposError: names key and name, and says how the user can allow it.
    """
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        group, _, last = key.rpartition(".")
        # a bare name such as `f1` is a metric of ours
        if last in NAMING and (last != "metric" or "." in value):
            kind = _kind_of(group)
            if last == "metric":
                kind = last
            refuse(value.strip("'\""), kind, key)
        if key.startswith("hydra"):  # hydra.searchpath=[pkg://…] imports a package
            raise RelposError(f"{override}: settings of Hydra belong on the command line")
        # ${oc.env:WANDB_API_KEY} would write a secret into records; Hydra reads $\{ without quotes
        # as ${.
        if RESOLVER.search(value.replace("\\", "")):
            raise RelposError(
                f"{override}: a file may refer to other keys (${{recipe.steps}}), "
                f"and call no resolver"
            )


def refuse(name: object, kind: str, key: str) -> None:
    """Refuses a name that lies neither in the modules of its kind nor in a trusted one. Imports
    nothing.

    Raises:
        RelposError: begins with `key`, and says how the user can allow it.
    """
    if kind not in KINDS:
        raise RelposError(f"{key}={name}: {kind or 'this key'} names no class")
    modules = KINDS[kind].modules
    if not isinstance(name, str) or "." not in name or not DOTTED.fullmatch(name):
        raise RelposError(
            f"{key}={str(name)[:200]!r}: a name such as {modules[0]}.Name is expected"
        )
    module = name.rpartition(".")[0]
    if _below(module, [*modules, *_trusted()]):
        return
    hint = ""
    if outside([name]):
        hint = f"; trust={module} allows it, and runs the code of that module"
    raise RelposError(f"{key}={name}: only names of {' and '.join(modules)} are allowed{hint}")


def find(name: object, kind: str, key: str) -> Any:
    """The class or function of this dotted name.

    Args:
        name: as the file has it.
        kind: a key of `KINDS`.
        key: where it stands, for messages.

    Raises:
        RelposError: the name is refused, there is no such thing, or it is of another kind.

    >>> find("relpos.model.position.Tisa", "position", "position._target_").__name__
    'Tisa'
    """
    refuse(name, kind, key)
    about = KINDS[kind]
    module, _, last = str(name).rpartition(".")
    ours = _below(module, about.modules)
    if not ours and os.getcwd() not in sys.path:
        # behind all others: a file here may not take the place of an installed package
        sys.path.append(os.getcwd())
    try:
        value = getattr(import_module(module), last)
    except Exception as error:  # the user's own module may raise anything
        raise RelposError(f"{key}: cannot import {name!r} ({one_line(error)})") from error
    if not _is_of_kind(value, about, ours):
        expected = about.base or f"class of {about.modules[0]}"
        if about.function and (ours or not about.base):
            expected = f"function of {about.modules[0]}"
        raise RelposError(f"{key}: {name} is not a {expected.replace('.base.', '.')}")
    return value


def _kind_of(key: str) -> str:
    """The kind of a key's name: the first part of the key that is a kind, as in
    `pretrain.objective` and `position.parts.0`."""
    return next((part for part in key.split(".") if part in KINDS), key.split(".")[0])


def _is_of_kind(value: object, kind: NameKind, ours: bool) -> bool:
    """Whether a class or function is of this kind; `ours` must be public and defined in the kind's
    modules."""
    if ours and (
        not _below(str(getattr(value, "__module__", "")), kind.modules)
        or str(getattr(value, "__name__", "_")).startswith("_")
    ):
        return False
    if kind.function and ours:
        return inspect.isfunction(value)
    if inspect.isclass(value) and (kind.base or not kind.function):
        bases = {f"{base.__module__}.{base.__qualname__}" for base in inspect.getmro(value)}
        return not kind.base or kind.base in bases
    return kind.function and callable(value)


def mistakes(
    values: ByName,
    target: Target,
    path: str = "",
) -> Iterator[tuple[str, RelposError]]:
    """(key, error) for every unknown key and every wrong value, also in groups and in nodes with a
    `_target_`.

    Args:
        values: name → value, as a configuration or a file has them; names that begin with _ say how
            a class is used.
        target: whose arguments they are.
        path: the key under which they stand.
    """
    annotations, takes_others = accepted(target)
    for name, value in values.items():
        key = str(name)
        if key.startswith("_"):
            continue
        if path:
            key = f"{path}.{name}"
        if name in annotations or takes_others:
            yield from _wrong(key, value, annotations.get(name, object))
        else:
            yield key, RelposError(f"unknown key {key!r:.200}.{nearest(str(name), annotations)}")


def _wrong(key: str, value: object, annotation: object) -> Iterator[tuple[str, RelposError]]:
    if isinstance(value, list) and any(map(_is_node, value)):
        for number, item in enumerate(value):
            yield from _wrong(f"{key}.{number}", item, next(iter(get_args(annotation)), object))
    elif _is_node(value):
        try:
            target = find(value["_target_"], _kind_of(key), f"{key}._target_")
        except RelposError as error:
            yield f"{key}._target_", error
        else:
            yield from mistakes(value, target, key)
    elif not (group := _group(annotation)):
        try:
            check(key, value, annotation)
        except RelposError as error:
            yield key, error
    elif isinstance(value, Mapping):
        yield from mistakes(value, group, key)
    else:
        keys = ", ".join(f"{key}.{name}" for name in accepted(group)[0])
        yield key, RelposError(f"{key}={shown(value):.100}: it has keys of its own, {keys}")


def targets(node: object, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, name) of every `_target_`; the path is its node's, as `position.parts.0`."""
    if _is_node(node):
        yield path, str(node["_target_"])
    inside: Iterable[tuple[object, object]] = ()
    if isinstance(node, Mapping):
        inside = node.items()
    elif isinstance(node, list | tuple):
        inside = enumerate(node)
    for key, value in inside:
        yield from targets(value, f"{path}.{key}".lstrip("."))


def _is_node(value: object) -> TypeGuard[ByName]:
    return isinstance(value, Mapping) and "_target_" in value


def _group(annotation: object) -> Target | None:
    """The TypedDict, dataclass or `Arguments` whose arguments are the keys of a group; None where the
    annotation is not a group's."""
    annotation = resolved_type(annotation)
    if isinstance(annotation, type) and (is_typeddict(annotation) or is_dataclass(annotation)):
        return annotation
    return mark_of(annotation, Arguments)


def refuse_mistakes(values: object, target: Target, path: str = "") -> None:
    """Refuses what is no group of keys, and the first of its `mistakes`.

    Raises:
        RelposError: names the key.
    """
    if not isinstance(values, Mapping):
        raise RelposError(
            f"{path}={shown(values):.100}: a group of keys {{key: value}} is expected".lstrip("=")
        )
    for _, error in mistakes(values, target, path):
        raise error


def constructor(node: object, kind: str) -> Any:
    """What a node's `_target_` names, with the node's other keys as arguments. Nodes inside it
    become such constructors, too.

    Raises:
        RelposError: a name or an argument is refused.
    """
    if not _is_node(node):
        raise RelposError(f"{kind}={str(node)[:100]}: a group with the key _target_ is expected")
    for _, error in _wrong(kind, node, object):
        raise error

    def built(value: object) -> object:
        if isinstance(value, list):
            return [built(item) for item in value]
        if not _is_node(value):
            return value
        arguments = {
            name: built(item) for name, item in value.items() if not str(name).startswith("_")
        }
        return partial(find(value["_target_"], kind, f"{kind}._target_"), **arguments)

    return built(node)


def instantiate(node: ByName, kind: str, **further: object) -> Any:
    """The object that a node with a `_target_` describes; `further` are more arguments of its
    constructor.

    Raises:
        RelposError: a name is refused, or the constructor refuses an argument.
    """
    return bound(node, kind, **further)()


def bound(node: ByName, kind: str, **further: object) -> Callable[[], Any]:
    """A function that does `instantiate`. Names and arguments are refused here, and nothing is made
    yet."""
    function = constructor(node, kind)
    try:
        # Before the call: a TypeError from inside the constructor is a bug and keeps its traceback.
        inspect.signature(function).bind(**further)
    except TypeError as error:
        raise RelposError(f"{kind}: {node['_target_']}: {error}") from None
    return partial(function, **further)


def allows(word: str) -> bool:
    """Whether the user has typed `trust=WORD`."""
    return word in _trusted()


def _trusted() -> list[str]:
    return [module for module in os.getenv(VARIABLE, "").split(",") if module]


def _below(module: str, tops: Iterable[str]) -> bool:
    return any(module == top or module.startswith(f"{top}.") for top in tops)
