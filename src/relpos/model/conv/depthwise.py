"""A depthwise convolution of the values beside the attention."""

from __future__ import annotations

from torch import Tensor

from relpos.model.conv.base import Conv
from relpos.model.conv.separable import DepthwiseConv
from relpos.model.conv.window import hide
from relpos.model.shape import Hidden, Mask, Shape
from relpos.ranges import Natural, checked


class Depthwise(Conv):
    """y_{i,c} = Σ_j softmax_j(s_ij) v_{j,c} + Σ_r w_{r,c} v_{i+r,c} + w_c, r = −k..k (Chang et al.
    2021, Eq. 7).

    Added after the softmax and before W_o to all heads, on the projected values, those of padding
    set to 0; w_r reads the token at i + r.

    Parameters: L·d·(2k+1 + bias)

    Differs from the paper: w_c, which is in the authors' code and in their counts; `bias=false`
    leaves it out.

    Example:
        >>> conv = Depthwise(Shape.example(), k=1, bias=False)
        >>> _ = conv.values.weight.data.copy_(torch.tensor([0.0, 0.0, 1.0]))  # each channel reads the next token
        >>> conv.after(torch.arange(4.0)[:, None].expand(1, 4, 8), None)[0, :, 0].tolist()
        [1.0, 2.0, 3.0, 0.0]
    """

    @checked
    def __init__(self, shape: Shape, k: Natural, bias: bool = True) -> None:
        super().__init__(shape)
        self.reads_ahead = k > 0
        self.values = DepthwiseConv(shape.heads * shape.head_dim, 2 * k + 1, bias)

    def after(self, v: Hidden, mask: Mask | None) -> Hidden:
        y: Tensor = self.values(hide(v, mask))
        return y

    def count(self, shape: Shape) -> int:
        width = self.values.weight.shape[1] + (self.values.bias is not None)
        return shape.heads * shape.head_dim * width
