"""Composite attention with a key-based term besides (Chang et al. 2021, Table 6)."""

from __future__ import annotations

from dataclasses import replace

from relpos.model.position.base import Outside, Terms, kernel_table
from relpos.model.position.composite import Composite, State
from relpos.model.position.dynamic import tables
from relpos.model.shape import Heads, Shape
from relpos.ranges import Natural, checked


class CompositeKey(Composite):
    """T_ij = β_{j−i} + a_{i, j−i} + b_{j, i−j}: Eq. 6 plus the key's kernel, which has a table of
    its own.

    Parameters: L·(H + 2d_h)·(2k+1)

    Example:
        >>> both = CompositeKey(Shape.example(), k=1)
        >>> both.count(both.shape), Composite(both.shape, k=1).count(both.shape)
        (60, 36)
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
        super().__init__(shape, k, outside, scaled)
        self.key = kernel_table(shape, self.k)

    def terms(self, layer: int, q: Heads, k: Heads, state: State) -> Terms:
        return replace(
            super().terms(layer, q, k, state),
            key=k,
            key_table=tables(self.key, self.scaled)[layer],
        )

    def count(self, shape: Shape) -> int:
        return shape.layers * (shape.heads + 2 * shape.head_dim) * (2 * self.k + 1)
