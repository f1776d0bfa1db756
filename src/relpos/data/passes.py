"""How the examples of a step are spread over forward passes. A matter of speed and memory: results
are the same, to rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor, arange, argsort, cat, from_numpy

from relpos.data.objective import IGNORED

MULTIPLE = 8
"""The tokens of a forward pass are padded to a multiple of this."""
PASS = 1024
"""Tokens of padding that cost as much as the fixed time of a forward pass: one more pass is worth
it where it saves more. Padding costs little: attention alone computes it (model/tokens.py)."""
PADDED = 2
"""A pass that computes no padding may be so many times as large with it, which takes memory."""


def passes(lengths: Tensor, room: int, padding: bool = True) -> list[Tensor]:
    """Which examples go through the network together: each example once, the longest first.

    A pass ends where it is full, or earlier where that saves more than `PASS` tokens of padding.

    Args:
        lengths: (b,) tokens of each example.
        room: tokens of a pass; an example that is longer goes alone.
        padding: it is computed and counts as tokens.
    """
    by_length = argsort(lengths, stable=True, descending=True)
    own = lengths[by_length].numpy()
    padded = -(-own // MULTIPLE) * MULTIPLE
    ends = own.cumsum()
    parts, start = [], 0
    while start < len(own):
        if padding:
            end = min(len(own), start + max(1, room // int(padded[start])))
            # tokens of padding, by ending the pass before each example
            saved = (padded[start] - padded[start:end]) * np.arange(end - start, 0, -1)
            if saved.max() > PASS:
                end = start + int(saved.argmax())
        else:
            full = int(np.searchsorted(ends, ends[start] - own[start] + room, side="right"))
            end = max(start + 1, min(full, start + PADDED * room // int(padded[start])))
        parts.append(by_length[start:end])
        start = end
    return parts


FULL = 15 / 16
"""A pass that needs so large a share of its places computes all: leaving some out costs copies."""
_UNIT = 64  # the tokens that a recorded pass computes are a multiple of this


@dataclass(frozen=True)
class Shapes:
    """The few shapes of the passes of a training on a GPU, where each shape is recorded once.

    A step is dealt out to as few passes as memory allows. All have n columns, and each computes a
    fixed number of tokens: its real ones, and of the padding behind them so many that there are

        m + 2 s i tokens, i = −1, 0, 1, …       m, s: mean and standard deviation over steps of rows drawn at random

    So three or four numbers serve nearly all steps, and a step computes at most 2 s tokens too many
    unless it is unusually short.

    Args:
        mean: tokens of a row.
        deviation: their standard deviation.
        n: columns of a pass, about a quarter of `length` or a multiple of that; where a row is
            longer, `length`.
        length: tokens of the longest row that there may be.
        room: tokens of a pass, padding included.
    """

    mean: float
    deviation: float
    n: int
    length: int
    room: int

    @classmethod
    def of(cls, lengths: Tensor, length: int, room: int) -> Shapes:
        """The shapes for rows like those of these lengths (rows,)."""
        numbers = lengths.double()
        unit = -(-length // (4 * MULTIPLE)) * MULTIPLE
        n = min(-(-int(lengths.max()) // unit) * unit, length)
        return cls(float(numbers.mean()), float(numbers.std(correction=0)), n, length, room)

    def deal(self, lengths: Tensor) -> Iterator[tuple[Tensor, int, Tensor | None]]:
        """(b,) the tokens of each row of a step → for each pass its rows, the longest first; its
        columns n; and `held` (tokens,), the places row · n + column that it computes, in order: the
        first ones of each row. None: all."""
        n = self.n
        if int(lengths.max()) > n:
            n = self.length
        count = min(len(lengths), -(-len(lengths) * n // self.room))
        by_length = argsort(lengths, stable=True, descending=True)
        mean = len(lengths) * self.mean / count
        width = max(1.0, 2 * math.sqrt(len(lengths)) * self.deviation / count)
        for part in range(count):
            # Dealt out as to processes, so that all passes have about as many tokens.
            rows = by_length[share(len(lengths), part, count)]
            real = int(lengths[rows].sum())
            least = max(real, mean + width * max(-1, math.ceil((real - mean) / width)))
            tokens = -(-math.ceil(least) // _UNIT) * _UNIT
            held = None
            if tokens <= FULL * len(rows) * n:
                held = _places(lengths[rows], n, tokens)
            yield rows, n, held


def outputs(labels: Tensor, held: Tensor | None) -> Tensor:
    """(places,) at which a recorded pass runs the head: the predicted tokens of labels (b, n),
    filled up with other computed tokens to a whole number of sixths of `held` (T,), or of all
    tokens. Nearly all passes of a training then have the same number of places, one sixth, because
    masks of 15 % are less than that."""
    places = held
    if places is None:
        places = arange(labels.numel())
    is_predicted = labels.flatten()[places] != IGNORED
    predicted = places[is_predicted]
    filling = places[~is_predicted]
    sixth = -(-len(places) // (6 * _UNIT)) * _UNIT
    return cat((predicted, filling[: max(1, -(-len(predicted) // sixth)) * sixth - len(predicted)]))


def _places(lengths: Tensor, n: int, tokens: int) -> Tensor:
    """(tokens,) places of a batch of rows of these lengths: those of all real tokens, then of
    padding, the first rows' first."""
    padding = (n - lengths).cumsum(0).clamp(max=tokens - int(lengths.sum()))
    ends = lengths + padding.diff(prepend=padding.new_zeros(1))
    return (arange(n) < ends[:, None]).flatten().nonzero().squeeze(1)


def share(count: int, rank: int, world: int) -> Tensor:
    """The places of a sorted list that process `rank` takes. They are dealt out as 0, 1, 2, 2, 1,
    0, 0, …, so that no process always gets the longest."""
    place = np.arange(count) % (2 * world)
    return from_numpy(np.flatnonzero(np.where(place < world, place, 2 * world - 1 - place) == rank))
