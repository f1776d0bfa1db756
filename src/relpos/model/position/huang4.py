"""Relative positions that meet both the query and the key (Huang et al. 2020, method 4)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.model.initial import normal_
from relpos.model.position.base import Scheme, Terms
from relpos.model.shape import Heads, Shape

BLOCK = 32  # rows that share one matrix product: fewer waste less of it on offsets that some row does not have, more are less to do
State = list[tuple[Float[Tensor, "head_dim offsets"], Float[Tensor, "head_dim offsets"]]]  # for query and key of each layer


class Huang4(Scheme):
    """s_ij = (q_i·k_j + q_i·A_{j−i} + k_j·A_{j−i}) / √head_dim with one table A (2·max_positions − 1, head_dim) a layer for both
    terms, shared by the heads, N(0, 0.02). Nothing is clipped: `max_positions` limits the length.

    The kernels are as wide as the sequence, so each is read where it is made, and they leave as one dense term.

    Parameters: L·(2n−1)·d_h

    Differs from the public code (`relative_key_query` of Transformers): row j − i + max_positions − 1 of the table, not
    i − j + max_positions − 1, so that later rows mean later tokens here too.

    Example:
        >>> huang, q = Huang4(Shape.example()), torch.ones(1, 2, 3, 4)
        >>> _ = huang.table.data.copy_(torch.arange(-15.0, 16.0)[:, None])  # the row of offset o holds o in each channel
        >>> huang.terms(0, q, 0 * q, huang.prepare(3)).dense[0, 0].tolist()  # 4 (j − i) / √4
        [[0.0, 2.0, 4.0], [-2.0, 0.0, 2.0], [-4.0, -2.0, 0.0]]
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.max_length = shape.max_positions
        sizes = (shape.layers, 2 * shape.max_positions - 1, shape.head_dim)
        self.table = normal_(nn.Parameter(torch.empty(sizes)), 0.02)

    def prepare(self, n: int) -> State:
        """The table of each layer over offsets 1−n..n−1, scaled; and the same from right to left, as the key sees it."""
        middle = self.shape.max_positions - 1
        table = self.table[:, middle - n + 1 : middle + n].transpose(1, 2) * self.shape.head_dim**-0.5
        return list(zip(table.unbind(0), table.flip(2).unbind(0), strict=True))

    def terms(self, layer: int, q: Heads, k: Heads, state: State) -> Terms:
        for_query, for_key = state[layer]
        return Terms(dense=by_offset(q, for_query).add_(by_offset(k, for_key).transpose(2, 3)))

    def count(self, shape: Shape) -> int:
        return shape.layers * (2 * shape.max_positions - 1) * shape.head_dim


def by_offset(x: Heads, table: Float[Tensor, "head_dim 2*n-1"]) -> Float[Tensor, "batch heads n n"]:
    """Entry [i, j] is x_i · table[:, j − i + n − 1]."""
    n = x.shape[2]
    return torch.cat([_rows(x, table, first, min(first + BLOCK, n)) for first in range(0, n, BLOCK)], 2)


def _rows(x: Tensor, table: Tensor, first: int, end: int) -> Tensor:
    """Rows first..end−1. Together they need n + rows − 1 offsets; each row's n begin one place before those of the row above, so in
    memory they stand one less than a row's width apart.
    """
    batch, heads, n, _ = x.shape
    rows = end - first
    width = n + rows - 1
    wide = x[:, :, first:end] @ table[:, n - end : n - end + width]
    if rows == 1:
        return wide
    return wide.flatten(2)[..., rows - 1 : rows * width - 1].view(batch, heads, rows, width - 1)[..., :n]
