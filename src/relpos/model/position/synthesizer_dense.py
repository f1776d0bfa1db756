"""Dense Synthesizer (Tay et al. 2021, section 3): each query makes its own scores, and no key is
read."""

from __future__ import annotations

import torch

from relpos.errors import RelposError
from relpos.model.initial import glorot
from relpos.model.position.base import Terms
from relpos.model.position.synthesizer import Synthesizer
from relpos.model.shape import Heads, Shape
from relpos.ranges import Count, checked


class SynthesizerDense(Synthesizer):
    """s_ij = relu(q_i) · W[:, j] with W (head_dim × max_positions) per layer, shared by the heads,
    Glorot uniform; no keys exist.

    `factor=a` makes the scores of two vectors of a and b = max_positions / a entries: s_ij =
    (relu(q_i) A)_x (relu(q_i) B)_y for j = b x + y. `mixture=true` gives (1 − s) q_i·k_j + s D_ij.

    Parameters: L·d_h·(factor + n/factor if factor else n) + L·mixture

    Differs from the paper: there x_i passes two linear maps with biases; here, as in the authors'
    code, the query's projection is the first, and the second has no bias. In which order the
    factors' entries meet the paper leaves open.

    Raises:
        RelposError: `factor` does not divide `max_positions`.

    Example:
        >>> dense = SynthesizerDense(Shape.example(), factor=4)
        >>> dense.terms(0, torch.ones(1, 2, 5, 4), None, dense.prepare(5)).dense.shape
        torch.Size([1, 2, 5, 5])
        >>> sorted(dense.projections), dense.scale
        (['q', 'v'], None)
    """

    @checked
    def __init__(self, shape: Shape, factor: Count | None = None, mixture: bool = False) -> None:
        super().__init__(shape, "qv", mixture)
        n = shape.max_positions
        width = shape.head_dim
        self.factor = factor
        if factor is None:
            self.weight = glorot(shape.layers, width, n, fans=width + n)
            return
        if n % factor:
            raise RelposError(f"factor must divide max_positions, {n}; {factor!r} does not")
        self.outer = glorot(shape.layers, width, factor, fans=width + factor)
        self.inner = glorot(shape.layers, width, n // factor, fans=width + n // factor)

    def prepare(self, n: int) -> int:
        return n

    def terms(self, layer: int, q: Heads, k: Heads | None, state: int) -> Terms:
        x = torch.relu(q)
        if self.factor is None:
            return Terms(dense=x @ self.weighed(layer, self.weight[layer, :, :state]))
        # The weight s goes on one factor, which is narrower than their product.
        pairs = (x @ self.weighed(layer, self.outer[layer]))[..., :, None] * (
            x @ self.inner[layer]
        )[..., None, :]
        return Terms(dense=pairs.flatten(-2)[..., :state])

    def count(self, shape: Shape) -> int:
        n = shape.max_positions
        columns = n if self.factor is None else self.factor + n // self.factor
        return shape.layers * shape.head_dim * columns + super().count(shape)
