"""Relative positions that meet both the query and the key (Huang et al. 2020, method 4)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.model.initial import normal_
from relpos.model.position.base import Scheme, Terms
from relpos.model.shape import Heads, Shape

# for query and key of each layer
State = list[tuple[Float[Tensor, "head_dim offsets"], Float[Tensor, "head_dim offsets"]]]


class Huang4(Scheme):
    """s_ij = (q_i·k_j + q_i·A_{j−i} + k_j·A_{j−i}) / √head_dim with one table A (2·max_positions −
    1, head_dim) per layer for both terms, shared by the heads, N(0, 0.02). Nothing is clipped:
    `max_positions` limits the length.

    The kernels are as wide as the sequence, so they leave as the two factors of their product.

    Parameters: L·(2n−1)·d_h

    Differs from the public code (`relative_key_query` of Transformers): row j − i + max_positions −
    1 of the table, not i − j + max_positions − 1, so that later rows mean later tokens here too.

    Example:
        >>> huang, q = Huang4(Shape.example()), torch.ones(1, 2, 3, 4)
        >>> _ = huang.table.data.copy_(torch.arange(-15.0, 16.0)[:, None])  # the row of offset o holds o in each channel
        >>> huang.terms(0, q, 0 * q, huang.prepare(3)).multiplied().query[0, 0, 1].tolist()  # 4 o / √4 at offsets −2 … 2
        [-4.0, -2.0, 0.0, 2.0, 4.0]
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.max_length = shape.max_positions
        sizes = (shape.layers, 2 * shape.max_positions - 1, shape.head_dim)
        self.table = normal_(nn.Parameter(torch.empty(sizes)), 0.02)

    def prepare(self, n: int) -> State:
        """The table of each layer over offsets 1−n..n−1, scaled; and the same from right to left,
        as the key sees it."""
        middle = self.shape.max_positions - 1
        # Scaled here, where it is small; kernels as wide as the sequence are large.
        table = (
            self.table[:, middle - n + 1 : middle + n].transpose(1, 2) * self.shape.head_dim**-0.5
        )
        return list(zip(table.unbind(0), table.flip(2).unbind(0), strict=True))

    def terms(self, layer: int, q: Heads, k: Heads, state: State) -> Terms:
        for_query, for_key = state[layer]
        return Terms(
            query=q,
            query_table=for_query[None],
            key=k,
            key_table=for_key[None],
        )

    def count(self, shape: Shape) -> int:
        return shape.layers * (2 * shape.max_positions - 1) * shape.head_dim
