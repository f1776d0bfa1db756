"""Fixed lightweight convolution as a term of the attention (Chang et al. 2021, Eq. 4)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.model.position.base import Outside, Scheme, Terms, extend
from relpos.model.shape import Heads, Shape
from relpos.ranges import Natural, checked


class Fixed(Scheme):
    """T_ij = β_{j−i}: one learned kernel of 2k+1 weights per layer and head, zero at the start, not
    scaled.

    Column k+1 is the next token. Beyond ±k the outermost weight goes on (`clamp`, the authors'
    code) or nothing is added (`zero`, Eqs. 2–3 read literally).

    Parameters: L·H·(2k+1)

    Example:
        >>> fixed = Fixed(Shape.example(), k=1)
        >>> _ = fixed.beta.data.copy_(torch.tensor([1.0, 0.0, 2.0]))  # the previous token, the same, the next
        >>> fixed.prepare(3)[0][0].tolist()  # offsets −2 … 2; beyond ±k the outermost weight goes on
        [1.0, 1.0, 0.0, 2.0, 2.0]
    """

    by_token = True

    @checked
    def __init__(self, shape: Shape, k: Natural = 8, outside: Outside = "clamp") -> None:
        super().__init__(shape)
        self.k, self.outside = k, outside
        self.beta = nn.Parameter(torch.zeros(shape.layers, shape.heads, 2 * k + 1))

    def prepare(self, n: int) -> tuple[Float[Tensor, "heads 2*{n}-1"], ...]:
        return extend(self.beta, n, self.outside).unbind(0)

    def terms(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        state: tuple[Float[Tensor, "heads offsets"], ...],
    ) -> Terms:
        return Terms(offset=state[layer], outside=self.outside)

    def count(self, shape: Shape) -> int:
        return shape.layers * shape.heads * (2 * self.k + 1)
