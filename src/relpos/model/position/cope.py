"""Positions counted by the scores (Golovneva et al. 2024, Contextual Position Encoding), to both
sides."""

from __future__ import annotations

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.nn import functional

from relpos.model.position.base import Input, Scheme, Terms
from relpos.model.shape import Heads, Mask, Shape
from relpos.ranges import Count, checked


class Cope(Scheme):
    """T_ij = q_i·e[p_ij] with p_ij = Σ_t g_it over the tokens t from j to i and g_it = σ(q_i·k_t /
    √head_dim): a query counts the keys that it likes, itself and j among them. e[0], …, e[p_max −
    1] are vectors of width head_dim, one table for what is to the left of i, i included, and one
    for what is to the right; the heads of a layer share both. Between whole numbers e is
    interpolated, and beyond p_max − 1 it stays what it is there. T is not scaled. Padding has the
    gate 0. Runs at any length.

    The tables start at 0. Gates and sums are float32 (float64 in a model of float64), whatever q
    and k are. q·k is computed once more, and T takes as much memory as the scores, several times
    over in training.

    Parameters: 2·L·p_max·d_h

    Differs from the paper: a decoder, which knows the left side alone, with one table.

    Example:
        >>> cope, q = Cope(Shape.example(), p_max=4), torch.ones(1, 2, 3, 4)
        >>> _ = cope.table.data.copy_(torch.arange(4.0)[:, None].expand(2, 2, 4, 4) / 4)  # q_i·e[p] = p
        >>> cope.terms(0, q, 0 * q, None).dense[0, 0].detach()  # each gate is ½
        tensor([[0.5000, 1.0000, 1.5000],
                [1.0000, 0.5000, 1.0000],
                [1.5000, 1.0000, 0.5000]])
    """

    @checked
    def __init__(self, shape: Shape, p_max: Count = 64) -> None:
        super().__init__(shape)
        self.p_max = p_max
        # left, right
        self.table = nn.Parameter(torch.zeros(shape.layers, 2, p_max, shape.head_dim))

    def see(self, layer: int, given: Input, state: None) -> Mask | None:
        return given.mask

    def terms(self, layer: int, q: Heads, k: Heads, state: Mask | None) -> Terms:
        # q and k are not turned here, so that gates are of the content alone whatever else a merge
        # does to the scores.
        n, scores = q.shape[2], q @ k.transpose(-1, -2) * float(self.shape.head_dim) ** -0.5
        gates = torch.sigmoid(scores.to(torch.promote_types(scores.dtype, torch.float32)))
        if state is not None:
            gates = gates.masked_fill(~state[:, None, None, :], 0.0)
        # Without the diagonal: the token itself counts to the left.
        right = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
        place = self.counted(gates, right).clamp(0, self.p_max - 1)
        # A floor has no gradient: that of the place comes through place − below alone.
        below = place.detach().floor()
        # The table of the right side stands behind that of the left.
        row = below.long() + self.p_max * right
        # Scores are interpolated, which is the same as scores of interpolated vectors: those would
        # be (n, n, head_dim).
        # (B, H, n, 2, p_max)
        by_row = (q @ self.table[layer].flatten(0, 1).t()).to(place.dtype).unflatten(-1, (2, -1))
        # one index for both, which is the largest tensor here
        to_next = functional.pad(by_row.diff(dim=-1), (0, 1))
        first, step = (x.flatten(-2).gather(-1, row) for x in (by_row, to_next))
        return Terms(dense=first + (place - below) * step)

    @staticmethod
    def counted(gates: Tensor, right: Bool[Tensor, "n n"]) -> Tensor:
        """p of these gates (…, n, n).

        Sums from the row's start give it: what lies between i and j, without the first of the two,
        and the gate of that one.
        """
        sums = gates.cumsum(-1)
        own = gates.diagonal(dim1=-2, dim2=-1)[..., None]
        between = sums - sums.diagonal(dim1=-2, dim2=-1)[..., None]
        return torch.where(right, between + own, gates - between)

    def count(self, shape: Shape) -> int:
        return 2 * shape.layers * self.p_max * shape.head_dim
