"""Positions drawn anew in each update (Ruoss et al. 2023, Randomized positional encodings; Kiyono
et al. 2021, SHAPE)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from relpos.counter import counter_hash
from relpos.errors import RelposError
from relpos.model.dropout import Dropout
from relpos.model.position.base import Position, Scheme
from relpos.model.position.merge import Merge, name_of
from relpos.model.shape import Shape
from relpos.ranges import Count, checked

EVALUATION = 0
"""The key of evaluation's subset."""


class Randomized(Merge):
    """The schemes of `parts`, as `Merge` adds them, with drawn numbers for the positions i or the
    offsets o that they ask for:

        i ↦ p_i with p_0 < p_1 < … out of 0 … length − 1
        ±o ↦ ±r_o with r_1 < r_2 < … out of 1 … length − 1

    Both are random subsets. T of schemes that ask for offsets still depends on j − i alone. Each
    update draws once for all sequences; evaluation has one subset, always the same.

    A subset covers max_positions tokens, and a shorter sequence has the first of its numbers:
    neither padding nor the other sequences change where a token stands. Where the batch is longer,
    it covers that, and they do.

    `draw=shift` is SHAPE: p_i = i + s with one s from 0 … length − max_positions for each update,
    and p_i = i in evaluation.

    Differs from the paper: there a subset has as many numbers as the sequence has tokens, so that a
    short sequence is spread out more than a long one, and evaluation draws, too. SHAPE shifts each
    sequence by itself.

    Args:
        parts: constructors of schemes, each called with the shape with max_positions = length.
        length: L; up to so many tokens are served.

    Raises:
        RelposError: `length` is less than max_positions, or a part learns in another way where
            tokens stand, or is not moved by `draw`.

    Example:
        >>> from relpos.model.position import Alibi
        >>> scheme = Randomized(Shape.example(), [Alibi], length=100).eval()
        >>> scheme.offsets(4, torch.device("cpu")).tolist()
        [-15, -12, -9, 0, 9, 12, 15]
        >>> scheme.prepare(2)[0][0].tolist()  # slope 1/16
        [-0.5625, -0.0, -0.5625]
    """

    @checked
    def __init__(
        self,
        shape: Shape,
        parts: Sequence[Position],
        length: Count = 2048,
        draw: Literal["subset", "shift"] = "subset",
    ) -> None:
        super().__init__(replace(shape, max_positions=length), parts)
        self.shape, self.max_length, self.length, self.shifts = (
            shape,
            length,
            length,
            draw == "shift",
        )
        if length < shape.max_positions:
            raise RelposError(
                f"length={length}: size.max_positions={shape.max_positions} or more is expected"
            )
        self.chance = Dropout(0.0)  # drops nothing; has the key of the present step
        schemes = [
            part
            for part in self.modules()
            if isinstance(part, Scheme) and not isinstance(part, Merge)
        ]
        asking = {
            part.asks: part
            for part in schemes
            if part.acts_on_scores or type(part).embed is not Scheme.embed
        }
        if len(asking) != 1 or None in asking:
            asked = ", ".join(
                f"{name_of(part)} asks for {kind or 'neither'}" for kind, part in asking.items()
            )
            raise RelposError(
                f"Randomized draws positions or offsets, and {asked or 'no part asks for them'}"
            )
        # Offsets are differences of positions: a shift cancels.
        if self.shifts and "offsets" in asking:
            raise RelposError(
                f"draw=shift moves positions, and {name_of(asking['offsets'])} asks "
                f"for offsets, which stay"
            )
        # The method of the object, and not of its class: the same scheme outside keeps its own
        # positions.
        for part in schemes:
            part.positions, part.offsets = self.positions, self.offsets  # type: ignore[method-assign]

    def positions(self, n: int, device: torch.device) -> Int[Tensor, "{n}"]:
        """p_0 … p_{n−1}"""
        covered = max(n, self.shape.max_positions)
        if not self.shifts:
            return self._subset(0, covered, device)[:n]
        place = torch.arange(n, device=device)
        if not self.training:
            return place
        # `place[:1]`, which is 0, has the hash computed on the device.
        return place + counter_hash(self.chance.key(), place[:1]).remainder(
            self.length - covered + 1
        )

    def offsets(self, n: int, device: torch.device) -> Int[Tensor, "2*{n}-1"]:
        """−r_{n−1} … 0 … r_{n−1}"""
        right = self._subset(1, max(n, self.shape.max_positions) - 1, device)[: n - 1]
        return torch.cat((-right.flip(0), right.new_zeros(1), right))

    def _subset(self, first: int, size: int, device: torch.device) -> Int[Tensor, "{size}"]:
        """So many of the numbers first … length − 1, in their order: those with the smallest
        hashes."""
        key = self.chance.key() if self.training else EVALUATION
        # Sorted hashes draw without replacement, as a function of the key alone.
        hashes = counter_hash(key, torch.arange(first, self.length, device=device))
        return hashes.argsort()[:size].sort().values + first

    def count(self, shape: Shape) -> int:
        return super().count(replace(shape, max_positions=self.length))

    def check_length(self, n: int) -> None:
        if n > self.length:
            raise RelposError(
                f"Randomized has {self.length} positions (length); a sequence of {n} "
                f"tokens is too long"
            )
