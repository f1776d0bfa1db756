"""Composite attention (Chang et al. 2021, Eq. 6)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.model.position.base import Outside, Scheme, Terms, kernel_table
from relpos.model.position.dynamic import tables
from relpos.model.shape import Heads, Shape
from relpos.ranges import Natural, checked

# β and R of each layer
State = list[tuple[Float[Tensor, "heads width"], Float[Tensor, "head_dim width"]]]


class Composite(Scheme):
    """T_ij = β_{j−i} + a_{i, j−i}: the fixed kernel of Eq. 4 plus the dynamic one of Eq. 5.

    Parameters: L·(H + d_h)·(2k+1)

    Example:
        >>> q = torch.ones(1, 2, 5, 4)
        >>> composite = Composite(Shape.example(), k=1)
        >>> terms = composite.terms(0, q, q, composite.prepare(5)).multiplied()
        >>> terms.offset.shape, terms.query.shape
        (torch.Size([2, 9]), torch.Size([1, 2, 5, 3]))
    """

    by_token = True

    @checked
    def __init__(
        self,
        shape: Shape,
        k: Natural = 8,
        outside: Outside = "clamp",
        scaled: bool = True,
    ) -> None:
        super().__init__(shape)
        self.k, self.outside, self.scaled = k, outside, scaled
        self.beta = nn.Parameter(torch.zeros(shape.layers, shape.heads, 2 * k + 1))
        self.query = kernel_table(shape, self.k)

    def prepare(self, n: int) -> State:
        return list(zip(self.beta.unbind(0), tables(self.query, self.scaled), strict=True))

    def terms(self, layer: int, q: Heads, k: Heads, state: State) -> Terms:
        beta, table = state[layer]
        return Terms(
            query=q,
            query_table=table,
            query_bias=beta,
            outside=self.outside,
        )

    def count(self, shape: Shape) -> int:
        return shape.layers * (shape.heads + shape.head_dim) * (2 * self.k + 1)
