"""Key-based dynamic lightweight convolution (Chang et al. 2021, section 3.2 and Table 6)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from relpos.model.position.base import Outside, Scheme, Terms, kernel_table
from relpos.model.position.dynamic import tables
from relpos.model.shape import Heads, Shape
from relpos.ranges import Natural, checked


class Key(Scheme):
    """T_ij = b_{j, i−j} with b_j = k_j S / √head_dim: a kernel made from each key, read where the
    query stands seen from the key.

    Column k+1 says how much the token after me attends to me, as in the authors' code.

    Parameters: L·d_h·(2k+1)

    Example:
        >>> q = torch.ones(1, 2, 5, 4)
        >>> key = Key(Shape.example(), k=1)
        >>> key.terms(0, q, q, key.prepare(5)).multiplied().key.shape  # a kernel of 2k+1 weights for each of five keys
        torch.Size([1, 2, 5, 3])
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
        self.key = kernel_table(shape, self.k)

    def prepare(self, n: int) -> tuple[Float[Tensor, "head_dim width"], ...]:
        return tables(self.key, self.scaled)

    def terms(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        state: tuple[Float[Tensor, "head_dim width"], ...],
    ) -> Terms:
        return Terms(key=k, key_table=state[layer], outside=self.outside)

    def count(self, shape: Shape) -> int:
        return shape.layers * shape.head_dim * (2 * self.k + 1)
