"""Weights of a checkpoint ↔ our parameters, by the lists of a family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from relpos.errors import RelposError
from relpos.pretrained.family import Family, Head, Weight
from relpos.pretrained.stored import check_numbers

Shape = tuple[int, ...]


def listed(family: Family, head: Head | None, layers: int, pooler: bool, widen: bool, prefix: str) -> list[Weight]:
    """Every weight of a network, under full names on both sides.

    Args:
        layers: how many layers have weights of their own.
        pooler: whether the encoder has a pooler.
        widen: whether there is a map from the embedding's width to the hidden one.
        prefix: before the names of the encoder's weights in the checkpoint.
    """
    our_prefix = "" if head is None else "encoder."  # without a head the network is the encoder itself
    parts = [*family.encoder, *(family.widen if widen else ()), *(family.pooler if pooler else ())]
    parts += [_numbered(weight, number) for number in range(layers) for weight in family.layer if number >= weight.since]
    encoder = [
        replace(weight, ours=our_prefix + weight.ours, theirs=tuple(prefix + name for name in names(weight))) for weight in parts
    ]
    return encoder + list(head.weights if head else ())


def names(weight: Weight) -> tuple[str, ...]:
    """The names of the checkpoint's weights that make one parameter."""
    return (weight.theirs,) if isinstance(weight.theirs, str) else weight.theirs


def read(weight: Weight, tensors: Mapping[str, Tensor], shape: Shape, heads: int) -> Tensor:
    """Our parameter of this shape, from the weights of the checkpoint. Where a single weight makes it, nothing is copied.

    Raises:
        RelposError: a weight is missing, has another shape, or no floating-point numbers; names it.
    """
    parts = [tensors[_present(weight, name, tensors)] for name in names(weight)]
    expected = _their_shape(weight, shape)
    for name, part in zip(names(weight), parts, strict=True):
        if tuple(part.shape) != expected:
            raise RelposError(f"weight {name!r} has shape {tuple(part.shape)}; by config.json it is {expected}")
        check_numbers(name, part)
    # A copy only where it must be: weights stay mapped from their file.
    whole = parts[0] if len(parts) == 1 else torch.cat(parts)
    whole = (whole.t() if weight.transposed else whole)[weight.reserved :]
    if weight.halves:
        whole = whole[_halves(len(whole), heads)]
    return whole if weight.single is None else whole.squeeze(weight.single)


def write(weight: Weight, parameter: Tensor, heads: int) -> Iterator[tuple[str, Tensor]]:
    """Names and weights of the checkpoint from one of our parameters; reserved rows are 0."""
    parameter = parameter.t() if weight.transposed else parameter
    if weight.halves:
        # The inverse of what `read` does.
        parameter = parameter[_halves(len(parameter), heads).argsort()]
    whole = parameter if weight.single is None else parameter.unsqueeze(weight.single)
    if weight.reserved:
        whole = torch.cat((whole.new_zeros(weight.reserved, *whole.shape[1:]), whole))
    yield from zip(names(weight), whole.chunk(len(names(weight))), strict=True)


def _halves(rows: int, heads: int) -> Int[Tensor, "rows"]:
    """Which row of theirs is each of ours, of the queries, keys and values of all heads."""
    query, key, value = torch.arange(rows).view(3, heads, 2, -1)
    # Values are not turned, and keep their order.
    return torch.cat([part.flatten() for part in (query.mT, key.mT, value)])


def _numbered(weight: Weight, number: int) -> Weight:
    theirs = tuple(name.replace("{n}", str(number)) for name in names(weight))
    return replace(weight, ours=weight.ours.replace("{n}", str(number)), theirs=theirs)


def _present(weight: Weight, name: str, tensors: Mapping[str, Tensor]) -> str:
    for known in (name, *weight.also):
        if known in tensors:
            return known
    raise RelposError(f"weight {name!r} is missing")


def _their_shape(weight: Weight, shape: Shape) -> Shape:
    rows, *rest = shape[::-1] if weight.transposed else shape
    theirs = [rows // len(names(weight)) + weight.reserved, *rest]
    if weight.single is not None:
        theirs.insert(weight.single, 1)
    return tuple(theirs)
