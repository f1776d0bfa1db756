"""The sizes that a position scheme or a convolution may depend on, and the tensors that pass
between the parts of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from jaxtyping import Bool, Float, Int
from torch import Tensor

Heads = Float[Tensor, "batch heads n head_dim"]  # queries, keys, values, or what a head gives
# queries and keys as a scheme turns them, which may be wider than values
Turned = Float[Tensor, "batch heads n turned_dim"]
Hidden = Float[Tensor, "batch n hidden"]  # a vector for each token
Ids = Int[Tensor, "batch n"]  # a number for each token
Mask = Bool[Tensor, "batch n"]  # true at real tokens
# the same where q, k and v may be one row of all sequences
Masks = Bool[Tensor, "sequences longest"]


Given = TypeVar("Given")
Made = TypeVar("Made")


def mapped(change: Callable[[Given], Made], *values: Given | None) -> list[Made | None]:
    """What `change` makes of each value; None of None."""
    results: list[Made | None] = []
    for value in values:
        if value is None:
            results.append(None)
        else:
            results.append(change(value))
    return results


def scaled(q: Tensor | None, scale: float) -> Tensor | None:
    """Queries times the factor of q·k, where there are any."""
    if q is None or scale == 1:
        return q
    return q * scale


@dataclass(frozen=True)
class Shape:
    """`layers` counts passes: twelve for ALBERT's one shared layer. `ffn` is the width of the
    feed-forward network before its activation."""

    heads: int
    head_dim: int
    hidden: int
    embedding: int
    layers: int
    max_positions: int
    ffn: int = 0

    @classmethod
    def example(cls) -> Shape:
        """The small sizes that examples and tests use."""
        return cls(
            heads=2,
            head_dim=4,
            hidden=8,
            embedding=6,
            layers=2,
            max_positions=16,
            ffn=12,
        )
