"""How the examples of a step are spread over forward passes. A matter of speed and memory: results are the same, to rounding."""

from __future__ import annotations

import numpy as np
from torch import Tensor, argsort, from_numpy

MULTIPLE = 8
"""The tokens of a forward pass are padded to a multiple of this."""
PASS = 512
"""Tokens of padding that cost as much as the fixed time of a forward pass: one more pass is worth it where it saves more. Padding
costs little, because attention alone computes it (model/tokens.py)."""


def passes(lengths: Tensor, room: int) -> list[Tensor]:
    """Which examples go through the network together: each example once, the longest first.

    A pass ends where it is full, or earlier where that saves more than `PASS` tokens of padding.

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


PADDED = 0.05
"""Share of a pass that may be padding, where passes have equally many examples."""
FEWEST = 16
"""Examples of such a pass, fewer only where a step has fewer."""


def even_rows(lengths: list[Tensor], most: int) -> int:
    """How many examples the passes of all steps have: the largest number, halving `most`, with at most `PADDED` padding.

    Args:
        lengths: tokens of each example of some steps.
        most: examples that fit into memory; of a step with fewer, all go together.
    """
    rows = min(most, max(len(step) for step in lengths))
    while rows > FEWEST and _padding(lengths, rows) > PADDED:
        rows = max(FEWEST, rows // 2)
    return rows


def _padding(lengths: list[Tensor], rows: int) -> float:
    parts = [part for step in lengths for part in step.sort(descending=True).values.split(rows)]
    computed = sum(len(part) * -(-int(part[0]) // MULTIPLE) * MULTIPLE for part in parts)
    return 1 - sum(int(part.sum()) for part in parts) / computed


def share(count: int, rank: int, world: int) -> Tensor:
    """The places of a sorted list that a process takes: dealt out 0, 1, 2, 2, 1, 0, 0, … so that none always gets the longest."""
    place = np.arange(count) % (2 * world)
    return from_numpy(np.flatnonzero(np.where(place < world, place, 2 * world - 1 - place) == rank))
