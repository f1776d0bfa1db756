"""A family's description read in both directions: `config.json` ↔ our configuration, a template
with a `ConfigKey` for every value of the file; and weights of a checkpoint ↔ our parameters, by
lists."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from relpos.errors import RelposError
from relpos.model.architecture import Size
from relpos.pretrained.family import Config, ConfigKey, Family, HeadLayout, Weight
from relpos.pretrained.stored import check_numbers
from relpos.trust import find

Shape = tuple[int, ...]


def from_config(family: Family, config: Config) -> dict[str, object]:
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
    return {name: _filled(part, config) for name, part in family.settings.items()}


def to_config(family: Family, settings: Config) -> dict[str, object]:
    """The `config.json` of a network with our configuration `settings`, without the keys of its
    head.

    Raises:
        RelposError: the family cannot express it; names the key.
    """
    config = {"model_type": family.model_type, **family.constants}
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
            raise RelposError(
                f"{family.model_type} has one {leaf.name}, this network "
                f"{path}={value} and another {paths[leaf.name]}"
            )
        config[leaf.name], paths[leaf.name] = written, path
    return config


def _filled(template: object, config: Config) -> Any:
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


def _leaves(template: object, ours: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Path in our configuration, what the template has there, and our value."""
    if isinstance(template, Mapping):
        if "_target_" in ours:
            # What is left out has the default of the constructor.
            target = find(ours["_target_"], path.partition(".")[0], f"{path}._target_")
            parameters = inspect.signature(target).parameters
            ours = {name: parameter.default for name, parameter in parameters.items()} | dict(ours)
        for name, part in template.items():
            yield from _leaves(part, ours[name], f"{path}.{name}" if path else name)
    elif isinstance(template, list):
        # First: the caller refuses another number of parts before `zip` fails.
        yield f"len({path})", len(template), len(ours)
        for place, (part, own) in enumerate(zip(template, ours, strict=True)):
            yield from _leaves(part, own, f"{path}.{place}")
    else:
        yield path, template, ours


def listed(
    family: Family,
    head: HeadLayout | None,
    size: Size,
    pooler: bool,
    prefix: str,
) -> list[Weight]:
    """Every weight of a network of this size, under full names on both sides.

    Args:
        pooler: whether the encoder has a pooler.
        prefix: before the names of the encoder's weights in the checkpoint.
    """
    outside = [*family.encoder]
    if size.embedding != size.hidden:
        outside += family.widen
    if pooler:
        outside += family.pooler
    parts = [(weight, 0) for weight in outside]
    # shared layers are one with weights of its own
    layers = 1 if size.share_layers else size.layers
    for number in range(layers):
        parts += [(weight, number) for weight in family.layer if number >= weight.since]
    # Without a head the network is the encoder itself.
    ours = "" if head is None else "encoder."
    weights = []
    for weight, number in parts:
        names = ours + weight.ours, " ".join(prefix + name for name in weight.names)
        own, theirs = (name.replace("{n}", str(number)) for name in names)
        weights.append(replace(weight, ours=own, theirs=theirs))
    if head is not None:
        weights += head.weights
    return weights


def read(weight: Weight, tensors: Mapping[str, Tensor], shape: Shape, heads: int) -> Tensor:
    """Our parameter of this shape, from the weights of the checkpoint. Where a single weight makes
    it, nothing is copied.

    Raises:
        RelposError: a weight is missing, has another shape, or no floating-point numbers; names it.
    """
    expected, parts = _their_shape(weight, shape), []
    for name in weight.names:
        stored = name if name in tensors else weight.also
        if stored not in tensors:
            raise RelposError(f"weight {name!r} is missing")
        parts.append(part := tensors[stored])
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


def write(weight: Weight, whole: Tensor, heads: int) -> Iterator[tuple[str, Tensor]]:
    """Names and weights of the checkpoint from one of our parameters; reserved rows are 0."""
    if weight.transposed:
        whole = whole.t()
    if weight.halves:  # the inverse of the order in `read`
        whole = whole[_halves(len(whole), heads).argsort()]
    if weight.single is not None:
        whole = whole.unsqueeze(weight.single)
    if weight.reserved:
        whole = torch.cat((whole.new_zeros(weight.reserved, *whole.shape[1:]), whole))
    yield from zip(weight.names, whole.chunk(len(weight.names)), strict=True)


def _halves(rows: int, heads: int) -> Int[Tensor, "rows"]:
    """For each of our rows of the queries, keys and values of all heads, the number of theirs."""
    query, key, value = torch.arange(rows).view(3, heads, 2, -1)
    # Values are not turned, and keep their order.
    return torch.cat([part.flatten() for part in (query.mT, key.mT, value)])


def _their_shape(weight: Weight, shape: Shape) -> Shape:
    theirs = list(shape)
    if weight.transposed:
        theirs.reverse()
    theirs[0] = theirs[0] // len(weight.names) + weight.reserved
    if weight.single is not None:
        theirs.insert(weight.single, 1)
    return tuple(theirs)
