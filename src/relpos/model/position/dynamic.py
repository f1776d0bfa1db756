"""Dynamic lightweight convolution as a term of the attention (Chang et al. 2021, Eq. 5): Shaw et al. 2018 with keys only."""

from __future__ import annotations

from torch import Tensor

from relpos.model.position.base import Scheme, Terms, check_k, check_outside, kernel_table
from relpos.model.shape import Shape


class Dynamic(Scheme):
    """T_ij = a_{i, j−i} with a_i = q_i R / √head_dim: a kernel of 2k+1 weights made from each query; R (head_dim × 2k+1) is one a
    layer, shared by the heads. `scaled=false` leaves the root out.
    """

    def __init__(self, shape: Shape, k: int = 8, outside: str = "clamp", scaled: bool = True) -> None:
        super().__init__(shape)
        self.k, self.outside, self.scaled = check_k(k), check_outside(outside), scaled
        self.query = kernel_table(shape, self.k)

    def prepare(self, n: int) -> tuple[Tensor, ...]:
        return self.query.unbind(0)

    def terms(self, layer: int, q: Tensor, k: Tensor, state: tuple[Tensor, ...]) -> Terms:
        return Terms(query=kernels(q, state[layer], self.scaled), outside=self.outside)

    def count(self, shape: Shape) -> int:
        return shape.layers * shape.head_dim * (2 * self.k + 1)


def kernels(x: Tensor, table: Tensor, scaled: bool) -> Tensor:
    """x (B, H, n, head_dim), table (head_dim, 2k+1) → a kernel for each token (B, H, n, 2k+1)."""
    # The table is tiny next to x, so it is what gets scaled.
    return x @ (table * x.shape[-1] ** -0.5 if scaled else table)
