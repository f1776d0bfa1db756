"""How the examples of a step are spread over forward passes. A matter of speed and memory: results are the same, to rounding."""

from __future__ import annotations

import numpy as np
from torch import Tensor, argsort, from_numpy

MULTIPLE = 8
"""The tokens of a forward pass are padded to a multiple of this."""
PASS = 128
"""Tokens that could be computed in the time that a forward pass costs by itself: padding that is worth one more pass."""


def passes(lengths: Tensor, room: int) -> list[Tensor]:
    """Which examples go through the network together, longest first: each example once.

    A pass ends where it is full, or earlier where the rest would be padded by more than `PASS` tokens.

    Args:
        lengths: (b,) tokens of each example.
        room: tokens of a pass, padding included; an example that is longer goes alone.
    """
    by_length = argsort(lengths, stable=True, descending=True)
    padded = -(-lengths[by_length].numpy() // MULTIPLE) * MULTIPLE
    parts, start = [], 0
    while start < len(padded):
        end = min(len(padded), start + max(1, room // int(padded[start])))
        saved = (padded[start] - padded[start:end]) * np.arange(end - start, 0, -1)  # by ending before each of them
        if saved.max() > PASS:
            end = start + int(saved.argmax())
        parts.append(by_length[start:end])
        start = end
    return parts


def share(count: int, rank: int, world: int) -> Tensor:
    """The places of a sorted list that a process takes: dealt out 0, 1, 2, 2, 1, 0, 0, … so that nobody always has the longest."""
    place = np.arange(count) % (2 * world)
    return from_numpy(np.flatnonzero(np.where(place < world, place, 2 * world - 1 - place) == rank))
