"""Random Synthesizer (Tay et al. 2021, section 3): attention that does not look at the tokens."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from relpos.model.initial import glorot
from relpos.model.position.base import Terms
from relpos.model.position.synthesizer import Synthesizer
from relpos.model.shape import Heads, Shape
from relpos.ranges import Count, checked


class SynthesizerRandom(Synthesizer):
    """s_ij = R_ij, a learned matrix (max_positions × max_positions) per layer and head; neither
    queries nor keys exist.

    `rank=r` makes it of two factors, R_ij = Σ_r F_ri G_rj; `mixture=true` gives (1 − s) q_i·k_j + s
    R_ij. Glorot uniform, with the fans that the authors' code (Mesh TensorFlow) counts on tensors
    laid out (n, heads, n) and (r, heads, n).

    Parameters: L·H·n·(2·rank if rank else n) + L·mixture

    Raises:
        RelposError: `rank` is not a whole number of 1 or more.

    Example:
        >>> random = SynthesizerRandom(Shape.example(), rank=2)
        >>> random.terms(0, None, None, random.prepare(5)).dense.shape
        torch.Size([1, 2, 5, 5])
        >>> sorted(random.projections)
        ['v']
    """

    @checked
    def __init__(self, shape: Shape, rank: Count | None = None, mixture: bool = False) -> None:
        super().__init__(shape, "v", mixture)
        self.rank = rank
        layers = shape.layers
        heads = shape.heads
        n = shape.max_positions
        if rank is None:
            self.matrix = glorot(layers, heads, n, n, fans=n * (heads + n))
            return
        self.rows = glorot(layers, heads, rank, n, fans=rank * (heads + n))
        self.columns = glorot(layers, heads, rank, n, fans=rank * (heads + n))

    def prepare(self, n: int) -> tuple[Float[Tensor, "1 heads {n} {n}"], ...]:
        """R of each layer."""
        factored = self.rank is not None
        matrix = (
            self.rows[..., :n].transpose(-1, -2) @ self.columns[..., :n]
            if factored
            else self.matrix[..., :n, :n]
        )
        return matrix.unsqueeze(1).unbind(0)

    def terms(
        self,
        layer: int,
        q: Heads | None,
        k: Heads | None,
        state: tuple[Float[Tensor, "1 heads n n"], ...],
    ) -> Terms:
        return Terms(dense=self.weighed(layer, state[layer]))

    def count(self, shape: Shape) -> int:
        width = shape.max_positions if self.rank is None else 2 * self.rank
        return shape.layers * shape.heads * shape.max_positions * width + super().count(shape)
