"""Dynamic lightweight convolution as a term of the attention (Chang et al. 2021, Eq. 5): Shaw et
al. 2018 with keys only.

An option adds Shaw's table for the values.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from relpos.model.initial import glorot
from relpos.model.position.base import Outside, Scheme, Terms, kernel_table
from relpos.model.shape import Heads, Shape
from relpos.ranges import Natural, checked

# R and u of each layer
State = list[tuple[Float[Tensor, "head_dim width"], Float[Tensor, "width head_dim"] | None]]


class Dynamic(Scheme):
    """T_ij = a_{i, j−i} with a_i = q_i R / √head_dim: a kernel of 2k+1 weights made from each
    query; R (head_dim × 2k+1) is one per layer, shared by the heads. `scaled=false` leaves the root
    out.

    `value=true` is the whole of Shaw et al.: values become v_j + u_{j−i}, u (2k+1 × head_dim) one
    per layer, Glorot uniform as in the authors' code.

    Parameters: L·d_h·(2k+1)·(1 + value)

    Example:
        >>> dynamic = Dynamic(Shape.example(), k=1, scaled=False)
        >>> dynamic.query.data.zero_()[..., 2] = 1  # the score of the next token is the sum of q_i's channels
        >>> q = torch.arange(3.0)[:, None].expand(1, 2, 3, 4)
        >>> dynamic.terms(0, q, q, dynamic.prepare(3)).multiplied().query[0, 0].tolist()
        [[0.0, 0.0, 0.0], [0.0, 0.0, 4.0], [0.0, 0.0, 8.0]]
    """

    @checked
    def __init__(
        self,
        shape: Shape,
        k: Natural = 8,
        outside: Outside = "clamp",
        scaled: bool = True,
        value: bool = False,
    ) -> None:
        super().__init__(shape)
        self.k, self.outside, self.scaled = k, outside, scaled
        self.query = kernel_table(shape, self.k)
        self.value = (
            glorot(shape.layers, 2 * k + 1, shape.head_dim, fans=2 * k + 1 + shape.head_dim)
            if value
            else None
        )

    @property
    def by_token(self) -> bool:
        return self.value is None

    def prepare(self, n: int) -> State:
        values = [None] * self.shape.layers if self.value is None else self.value.unbind(0)
        return list(zip(tables(self.query, self.scaled), values, strict=True))

    def terms(self, layer: int, q: Heads, k: Heads, state: State) -> Terms:
        table, value = state[layer]
        return Terms(
            query=q,
            query_table=table,
            value=value,
            outside=self.outside,
        )

    def count(self, shape: Shape) -> int:
        return shape.layers * shape.head_dim * (2 * self.k + 1) * (1 if self.value is None else 2)


def tables(
    table: Float[Tensor, "layers head_dim width"],
    scaled: bool,
) -> tuple[Float[Tensor, "head_dim width"], ...]:
    """What the queries, or keys, of each layer are multiplied with for their kernels."""
    # The table is tiny next to them, so it is what gets scaled.
    return (table * table.shape[1] ** -0.5 if scaled else table).unbind(0)
