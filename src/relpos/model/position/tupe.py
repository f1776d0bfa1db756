"""Untied positions (Ke et al. 2021, TUPE): positions meet positions, words meet words, and [CLS]
stands outside the order."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.model.initial import normal_
from relpos.model.position.base import Scheme, Terms
from relpos.model.position.t5 import bucket, bucket_edges
from relpos.model.shape import Heads, Shape
from relpos.ranges import checked

NORM_EPS = 1e-5  # of the authors' layer norm on the table
BUCKETS = 32  # of T5's term; there is one more


class Tupe(Scheme):
    """s_ij = q_i·k_j / √(2 d_h) + D_ij with D_ij = (LN(p_i) U_Q)·(LN(p_j) U_K) / √(2 d_h) per head
    (section 3; d_h = head_dim).

    D is computed once and serves all layers. The table has max_positions + 1 rows of the width
    `hidden`, N(0, 0.02). Token t from 1 on has row t + 1; rows 0 and 1 each make one number per
    head, θ = (LN(p) U_Q)·(LN(p) U_K) / √(2 d_h). That of row 0 fills the first row of D ([CLS]
    looking at all, itself too), that of row 1 the rest of the first column (all others looking at
    [CLS]). U_Q and U_K have biases, and one layer norm stands before both.

    `relative=true` (TUPE-R) adds T5's term, 33 numbers per head for all layers, not scaled: bucket
    32 is the first column and bucket 16, which T5 leaves free, the first row.

    Parameters: (n+1)·d + 2d + 2·(d² + d) + 33·H·relative

    Differs from the paper: as in the authors' code there are the biases and the layer norm, and the
    two numbers of [CLS] come from rows of the table, not from parameters of their own.

    Example:
        >>> tupe = Tupe(Shape.example())
        >>> tupe.prepare(5).shape  # one matrix per head for all layers and sequences
        torch.Size([1, 2, 5, 5])
        >>> round(tupe.scale, 4)  # 1 / √8
        0.3536
    """

    @checked
    def __init__(self, shape: Shape, relative: bool = False) -> None:
        super().__init__(shape)
        self.max_length, self.relative = shape.max_positions, relative
        self.table = normal_(nn.Parameter(torch.empty(shape.max_positions + 1, shape.hidden)), 0.02)
        self.norm = nn.LayerNorm(shape.hidden, eps=NORM_EPS)
        self.query, self.key = (
            nn.Linear(shape.hidden, shape.heads * shape.head_dim) for _ in range(2)
        )
        for part in (self.query, self.key):
            normal_(part.weight, 0.02)
            nn.init.zeros_(part.bias)
        if relative:
            self.buckets = normal_(nn.Parameter(torch.empty(BUCKETS + 1, shape.heads)), 0.02)
            self.register_buffer("edges", torch.tensor(bucket_edges(BUCKETS)), persistent=False)

    @property
    def scale(self) -> float:
        return float(2 * self.shape.head_dim) ** -0.5

    def prepare(self, n: int) -> Float[Tensor, "1 heads {n} {n}"]:
        """D."""
        with torch.autocast(self.table.device.type, enabled=False):
            p = self.norm(self.table[: n + 1])
            q, k = (
                part(p).view(n + 1, self.shape.heads, -1).transpose(0, 1)
                for part in (self.query, self.key)
            )
            dense = self.scale * (q[:, 1:] @ k[:, 1:].transpose(1, 2))
            first_row, first_column = (self.scale * (q[:, :2] * k[:, :2]).sum(-1)).unbind(1)
        # The first row, and then the rest of the first column, are one number per head.
        below = torch.cat((first_column[:, None, None].expand(-1, n - 1, 1), dense[:, 1:, 1:]), 2)
        dense = torch.cat((first_row[:, None, None].expand(-1, 1, n), below), 1)
        return (dense + self._relative(n) if self.relative else dense)[None]

    def _relative(self, n: int) -> Float[Tensor, "heads {n} {n}"]:
        """T5's term."""
        token = torch.arange(n, device=self.table.device)
        columns = bucket(token[None, :] - token[:, None], self.get_buffer("edges"))
        # The row last: [CLS] looking at itself belongs to it.
        columns[:, 0], columns[0, :] = BUCKETS, BUCKETS // 2
        return self.buckets.t()[:, columns]

    def terms(self, layer: int, q: Heads, k: Heads, state: Float[Tensor, "1 heads n n"]) -> Terms:
        return Terms(dense=state)

    def count(self, shape: Shape) -> int:
        width = shape.heads * shape.head_dim
        untied = (
            (shape.max_positions + 1) * shape.hidden
            + 2 * shape.hidden
            + 2 * (shape.hidden + 1) * width
        )
        return untied + (BUCKETS + 1) * shape.heads * self.relative
