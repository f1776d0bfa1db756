"""A family's description read in both directions: `config.json` ↔ our configuration, a template
with a `ConfigKey` for every value of the file; and weights of a checkpoint ↔ our parameters, by
lists."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from relpos.errors import RelposError
from relpos.model.encoder import Encoder
from relpos.pretrained.family import ConfigKey, Family, HeadLayout, Weight
from relpos.pretrained.stored import check_numbers
from relpos.trust import find

Shape = tuple[int, ...]


def from_config(family: Family, config: Mapping[str, Any]) -> dict[str, Any]:
    """Our configuration, `size`, `position`, `conv` and `vocabulary`, from that of a `config.json`.

    Raises:
        RelposError: a key has a value that our networks cannot express.
    """
    # Versions of transformers name and nest the same keys differently.
    config = family.normalised(config)
    for name, needed in family.constants.items():
        if config.get(name, needed) not in (needed, None):  # a key without a value says nothing
            raise RelposError(
                f"{name}={config[name]}: only {needed} is supported for {family.model_type}"
            )
    settings: dict[str, Any] = _filled(family.settings, config)
    return settings


def to_config(family: Family, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The `config.json` of a network with our configuration `settings`, without the keys of its
    head.

    Raises:
        RelposError: the family cannot express it; names the key.
    """
    config: dict[str, Any] = {"model_type": family.model_type} | dict(family.constants)
    paths: dict[str, str] = {}  # key of the file → ours, which has decided its value
    for path, leaf, value in _leaves(family.settings, settings, ""):
        if not isinstance(leaf, ConfigKey):
            if value != leaf:
                raise RelposError(
                    f"{family.model_type} has {path}={leaf}, this network {path}={value}"
                )
            continue
        written = leaf.write(value)
        # Two of our values may come from one key, as width and embedding width of BERT.
        if config.get(leaf.name, written) != written:
            earlier = paths[leaf.name]
            raise RelposError(
                f"{family.model_type} has one {leaf.name}, this network "
                f"{path}={value} and another {earlier}"
            )
        config[leaf.name], paths[leaf.name] = written, path
    return config


def _filled(template: Any, config: Mapping[str, Any]) -> Any:
    if isinstance(template, ConfigKey):
        value = template.of(config)
        try:
            return template.read(value)
        except RelposError as error:
            raise RelposError(f"{template.name}={value}: {error}") from None
        except (TypeError, ValueError):
            raise RelposError(f"{template.name}={value!r} is not understood") from None
    if isinstance(template, Mapping):
        return {name: _filled(part, config) for name, part in template.items()}
    if isinstance(template, list):
        return [_filled(part, config) for part in template]
    return template


def _leaves(template: Any, ours: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Path in our configuration, what the template has there, and our value."""
    if isinstance(template, Mapping):
        for name, part in template.items():
            yield from _leaves(part, _value(ours, path, name), f"{path}.{name}" if path else name)
    elif isinstance(template, list):
        # First: the caller refuses another number of parts before `zip` fails.
        yield f"len({path})", len(template), len(ours)
        for place, (part, own) in enumerate(zip(template, ours, strict=True)):
            yield from _leaves(part, own, f"{path}.{place}")
    else:
        yield path, template, ours


def _value(node: Mapping[str, Any], path: str, name: str) -> Any:
    """A value of our configuration at this path; one that is left out has the default of the
    constructor's argument."""
    if name in node:
        return node[name]
    target: Any = Encoder
    if path != "size":
        target = find(node["_target_"], path.partition(".")[0], f"{path}._target_")
    return inspect.signature(target).parameters[name].default


def listed(
    family: Family, head: HeadLayout | None, size: Mapping[str, Any], pooler: bool, prefix: str
) -> list[Weight]:
    """Every weight of a network of this size, under full names on both sides.

    Args:
        pooler: whether the encoder has a pooler.
        prefix: before the names of the encoder's weights in the checkpoint.
    """
    parts = list(family.encoder)
    if size["embedding"] != size["hidden"]:
        parts += family.widen
    if pooler:
        parts += family.pooler
    layers = size["layers"]
    if size.get("share_layers", False):
        layers = 1  # with weights of its own
    for number in range(layers):
        parts += [_numbered(weight, number) for weight in family.layer if number >= weight.since]
    encoder = [
        replace(weight, theirs=tuple(prefix + name for name in names(weight))) for weight in parts
    ]
    if head is None:  # the network is the encoder itself
        return encoder
    return [*(replace(weight, ours=f"encoder.{weight.ours}") for weight in encoder), *head.weights]


def names(weight: Weight) -> tuple[str, ...]:
    """The names of the checkpoint's weights that make one parameter."""
    if isinstance(weight.theirs, str):
        return (weight.theirs,)
    return weight.theirs


def names_of(weights: Iterable[Weight]) -> set[str]:
    """The names of the checkpoint's weights that make these parameters."""
    return set(chain.from_iterable(map(names, weights)))


def read(weight: Weight, tensors: Mapping[str, Tensor], shape: Shape, heads: int) -> Tensor:
    """Our parameter of this shape, from the weights of the checkpoint. Where a single weight makes
    it, nothing is copied.

    Raises:
        RelposError: a weight is missing, has another shape, or no floating-point numbers; names it.
    """
    parts = [tensors[_present(weight, name, tensors)] for name in names(weight)]
    expected = _their_shape(weight, shape)
    for name, part in zip(names(weight), parts, strict=True):
        if tuple(part.shape) != expected:
            raise RelposError(
                f"weight {name!r} has shape {tuple(part.shape)}; by config.json it is {expected}"
            )
        check_numbers(name, part)
    whole = parts[0]  # not a copy: weights stay mapped from their file
    if len(parts) > 1:
        whole = torch.cat(parts)
    if weight.transposed:
        whole = whole.t()
    whole = whole[weight.reserved :]
    if weight.halves:
        whole = whole[_halves(len(whole), heads)]
    if weight.single is not None:
        whole = whole.squeeze(weight.single)
    return whole


def write(weight: Weight, parameter: Tensor, heads: int) -> Iterator[tuple[str, Tensor]]:
    """Names and weights of the checkpoint from one of our parameters; reserved rows are 0."""
    whole = parameter
    if weight.transposed:
        whole = whole.t()
    if weight.halves:  # the inverse of the order in `read`
        whole = whole[_halves(len(whole), heads).argsort()]
    if weight.single is not None:
        whole = whole.unsqueeze(weight.single)
    if weight.reserved:
        whole = torch.cat((whole.new_zeros(weight.reserved, *whole.shape[1:]), whole))
    yield from zip(names(weight), whole.chunk(len(names(weight))), strict=True)


def _halves(rows: int, heads: int) -> Int[Tensor, "rows"]:
    """For each of our rows of the queries, keys and values of all heads, the number of theirs."""
    query, key, value = torch.arange(rows).view(3, heads, 2, -1)
    # Values are not turned, and keep their order.
    return torch.cat([part.flatten() for part in (query.mT, key.mT, value)])


def _numbered(weight: Weight, number: int) -> Weight:
    theirs = tuple(name.replace("{n}", str(number)) for name in names(weight))
    return replace(weight, ours=weight.ours.replace("{n}", str(number)), theirs=theirs)


def _present(weight: Weight, name: str, tensors: Mapping[str, Tensor]) -> str:
    for stored in (name, *weight.also):
        if stored in tensors:
            return stored
    raise RelposError(f"weight {name!r} is missing")


def _their_shape(weight: Weight, shape: Shape) -> Shape:
    theirs = list(shape)
    if weight.transposed:
        theirs.reverse()
    theirs[0] = theirs[0] // len(names(weight)) + weight.reserved
    if weight.single is not None:
        theirs.insert(weight.single, 1)
    return tuple(theirs)
