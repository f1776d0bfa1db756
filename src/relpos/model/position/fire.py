"""Functional interpolation of distances (Li et al. 2024, FIRE), for encoders."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.model.initial import uniform_
from relpos.model.position.base import Scheme, Terms
from relpos.model.shape import Heads, Shape
from relpos.ranges import Width, checked

LEAST = 1e-6  # added to the divisor, as in the public implementations (DAPE, mcleish7/arithmetic)
START = 0.1  # of c


class Fire(Scheme):
    """T_ij = f_h(ln(1 + |c (j − i)|) / (ln(1 + |c m·length|) + 10⁻⁶)), where f(x) = W_2 max(0, W_1
    x + b_1) + b_2 has a number for each head. One f, one c (0.1 at the start) and one m (1) serve
    all layers. T is not scaled. Runs at any length.

    W_1 and b_1 are uniform in ±1, W_2 and b_2 in ±1/√width, as a linear map of torch begins.

    `sign=true`: x has the sign of j − i, so that f tells the sides apart and may have any shape on
    each.

    Parameters: 2·width + H·(width + 1) + 2

    Differs from the paper: that is causal, and divides by the position of the query where it is
    beyond the learned length m·length. Here that length always divides, so that T depends on j − i
    alone and not on padding: up to it the two are the same.

    Example:
        >>> fire = Fire(Shape.example(), length=3)
        >>> fire.places(3)  # of the offsets −2 … 2: ln 1.2 / ln 1.3, ln 1.1 / ln 1.3
        tensor([0.6949, 0.3633, 0.0000, 0.3633, 0.6949], grad_fn=<DivBackward0>)
    """

    asks = "offsets"
    by_token = True

    @checked
    def __init__(
        self,
        shape: Shape,
        width: Width = 32,
        length: Width = 512,
        sign: bool = False,
    ) -> None:
        super().__init__(shape)
        self.length, self.sign, self.width = length, sign, width
        self.c = nn.Parameter(torch.tensor(START))
        self.multiplier = nn.Parameter(torch.tensor(1.0))
        self.inner, self.inner_bias = (
            uniform_(nn.Parameter(torch.empty(width)), -1, 1) for _ in range(2)
        )
        bound = width**-0.5
        self.outer = uniform_(nn.Parameter(torch.empty(shape.heads, width)), -bound, bound)
        self.outer_bias = uniform_(nn.Parameter(torch.empty(shape.heads)), -bound, bound)

    def places(self, n: int) -> Float[Tensor, "2*{n}-1"]:
        """x, what f is given, at the offsets 1−n … n−1."""
        dtype = torch.promote_types(self.c.dtype, torch.float32)
        c = self.c.to(dtype)
        multiplier = self.multiplier.to(dtype)
        offset = self.offsets(n, c.device)
        grown = torch.log1p((c * offset).abs())
        return (grown * offset.sign() if self.sign else grown) / (
            torch.log1p((c * multiplier * self.length).abs()) + LEAST
        )

    def prepare(self, n: int) -> Float[Tensor, "heads 2*{n}-1"]:
        """β (H, 2n−1)."""
        # f is read at 2n − 1 places whose differences bfloat16 would round away.
        with torch.autocast(self.c.device.type, enabled=False):
            x = self.places(n)
            inner, inner_bias, outer, outer_bias = (
                part.to(x.dtype)
                for part in (self.inner, self.inner_bias, self.outer, self.outer_bias)
            )
            return (
                outer @ torch.relu(inner[:, None] * x + inner_bias[:, None]) + outer_bias[:, None]
            )

    def terms(self, layer: int, q: Heads, k: Heads, state: Float[Tensor, "heads offsets"]) -> Terms:
        return Terms(offset=state)

    def count(self, shape: Shape) -> int:
        return 2 * self.width + shape.heads * (self.width + 1) + 2
