"""Attention with linear biases (Press et al. 2022, ALiBi), in its forms for encoders."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from relpos.model.position.base import Scheme, Terms
from relpos.model.position.dual_triangle import blind_sides, one_sided
from relpos.model.shape import Heads, Shape
from relpos.ranges import checked


class Alibi(Scheme):
    """T_ij = −m_h |i − j|, the same in all layers, added after the scaling; slopes m_h are not
    learned. No parameters.

    As it stands T is the same on both sides, so that distance tells nothing of direction.
    `sides=half`: the first ⌈H/2⌉ heads see the left side alone and the others the right one, each
    half with the slopes of a network of so many heads; a token sees itself. `sides=shift`: the
    right side is nearer by half a token, T_ij = −m_h (j − i − ½) for j > i.

    Parameters: 0

    Differs from the paper: that is causal and knows one side only. The symmetric form and the half
    form are those that the authors propose for encoders, the shift is that of EIFY's fork of
    fairseq; DeepMind's puts it on the left side.

    Example:
        >>> slopes(2)
        [0.0625, 0.00390625]
        >>> Alibi(Shape.example()).prepare(3)[0].tolist()  # offsets −2 … 2
        [-0.125, -0.0625, -0.0, -0.0625, -0.125]
        >>> Alibi(Shape.example(), sides="shift").prepare(3)[0].tolist()
        [-0.125, -0.0625, -0.0, -0.03125, -0.09375]
    """

    asks = "offsets"
    by_token = True

    @checked
    def __init__(
        self,
        shape: Shape,
        sides: Literal["symmetric", "half", "shift"] = "symmetric",
    ) -> None:
        super().__init__(shape)
        self.sides = sides
        left = (shape.heads + 1) // 2
        of_heads = (
            slopes(left) + slopes(shape.heads - left) if sides == "half" else slopes(shape.heads)
        )
        self.keep_exact("slopes", torch.tensor(of_heads, dtype=torch.float64))  # (H,)
        if sides == "half":
            self.keep_exact("blind", blind_sides(shape.heads))

    def prepare(self, n: int) -> Float[Tensor, "heads 2*{n}-1"]:
        """β (H, 2n−1)."""
        slopes = self.exact("slopes")
        offset = self.offsets(n, slopes.device)
        distance = offset.abs() - 0.5 * (offset > 0) if self.sides == "shift" else offset.abs()
        bias = -slopes[:, None] * distance
        return bias + one_sided(self.exact("blind"), n) if self.sides == "half" else bias

    def terms(self, layer: int, q: Heads, k: Heads, state: Float[Tensor, "heads offsets"]) -> Terms:
        # In bfloat16 distances above 256 would share their bias with the next one.
        return Terms(offset=state.to(torch.promote_types(q.dtype, torch.float32)))


def slopes(heads: int) -> list[float]:
    """m_h = 2^(−8h/H), h = 1…H, where H is a power of two. Else those of the power P below H, then
    every other one, from the first on, of the 2P.
    """
    if not heads:
        return []
    power = 1 << (heads.bit_length() - 1)
    slopes_of_power = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    return slopes_of_power + [2 ** (-4 * head / power) for head in range(1, 2 * (heads - power), 2)]
