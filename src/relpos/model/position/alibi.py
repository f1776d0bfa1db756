"""Attention with linear biases (Press et al. 2022, ALiBi), in its symmetric form for encoders."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from relpos.model.position.base import Scheme, Terms
from relpos.model.shape import Heads, Shape


class Alibi(Scheme):
    """T_ij = −m_h |i − j|, the same in all layers, added after the scaling; slopes m_h are not learned. No parameters.

    Parameters: 0

    Differs from the paper: that is causal and knows one side only; the two-sided form is the one the authors propose for encoders.

    Example:
        >>> slopes(2)
        [0.0625, 0.00390625]
        >>> Alibi(Shape.example()).prepare(3)[0].tolist()  # offsets −2 … 2
        [-0.125, -0.0625, -0.0, -0.0625, -0.125]
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.keep_exact("slopes", torch.tensor(slopes(shape.heads), dtype=torch.float64))  # (H,)

    def prepare(self, n: int) -> Float[Tensor, "heads 2*{n}-1"]:
        """β (H, 2n−1)."""
        slopes = self.exact("slopes")
        return -slopes[:, None] * torch.arange(1 - n, n, device=slopes.device).abs()

    def terms(self, layer: int, q: Heads, k: Heads, state: Float[Tensor, "heads offsets"]) -> Terms:
        return Terms(offset=state.to(torch.promote_types(q.dtype, torch.float32)))


def slopes(heads: int) -> list[float]:
    """m_h = 2^(−8h/H), h = 1…H, where H is a power of two. Else those of the power P below H, then every other one, from the first
    on, of the 2P.
    """
    power = 1 << (heads.bit_length() - 1)
    slopes_of_power = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    return slopes_of_power + [2 ** (-4 * head / power) for head in range(1, 2 * (heads - power), 2)]
