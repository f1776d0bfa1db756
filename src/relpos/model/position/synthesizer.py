"""What the synthesizers share (Tay et al. 2021): scores that are learned or made from the query
alone, and the mixture with q·k."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from relpos.model.position.base import Scheme
from relpos.model.shape import Heads, Shape


class Synthesizer(Scheme):
    """s_ij = D_ij without q·k; as a mixture s_ij = (1 − s) q_i·k_j + s D_ij with s = σ(α), α one
    number per layer, 0 at the start.

    There is no 1/√head_dim on either part; the projections' small initial weights stand for it.
    Projections that no part needs do not exist. `max_positions` limits the length.

    Args:
        needed: which of q, k, v make D and y; a mixture needs all three.
    """

    def __init__(self, shape: Shape, needed: str, mixture: bool) -> None:
        super().__init__(shape)
        self.max_length = shape.max_positions
        self.mixture, self.projections = mixture, frozenset("qkv" if mixture else needed)
        if mixture:
            self.alpha = nn.Parameter(torch.zeros(shape.layers))

    @property
    def scale(self) -> float | None:
        return 1.0 if self.mixture else None

    def turn(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        v: Heads,
        state: Any,
    ) -> tuple[Heads, Heads, Heads]:
        """The weight 1 − s of q·k, put on q."""
        # σ(−α) is 1 − σ(α).
        return (q * torch.sigmoid(-self.alpha[layer]), k, v) if self.mixture else (q, k, v)

    def weighed(self, layer: int, factor: Tensor) -> Tensor:
        """A factor of D with the weight s."""
        return factor * torch.sigmoid(self.alpha[layer]) if self.mixture else factor

    def count(self, shape: Shape) -> int:
        return shape.layers * self.mixture
