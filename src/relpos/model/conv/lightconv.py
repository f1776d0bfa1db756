"""Lightweight and dynamic convolution: no self-attention at all."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from relpos.model.conv.base import Conv
from relpos.model.conv.window import depthwise, hide, weighted
from relpos.model.dropout import Draw, drop
from relpos.model.initial import glorot
from relpos.model.shape import Heads, Hidden, Mask, Shape
from relpos.ranges import Natural, checked


class GatedConv(Conv):
    """The frame of both (Wu et al. 2019, "Pay less attention with lightweight and dynamic
    convolutions", Fig. 2):

        v_i = (W_1 x_i + b_1) ⊙ σ(W_2 x_i + b_2), 0 at padding
        y_i = W_o Σ_r softmax(w)_r v_{i+r} + b_o, r = −k..k

    All channels of a head share their weights w. There are neither queries nor keys, and nothing
    for a position scheme to act on but the embeddings. What falls outside the sequence counts as 0,
    the softmax is over all 2k+1 weights all the same, and the rate of attention dropout is that of
    DropConnect on them.
    """

    projections = frozenset("qkv")

    @checked
    def __init__(self, shape: Shape, k: Natural) -> None:
        super().__init__(shape)
        self.width, self.reads_ahead = 2 * k + 1, k > 0
        self.gated = nn.Linear(shape.hidden, 2 * shape.heads * shape.head_dim)

    @property
    def scored_heads(self) -> int:
        return 0

    def project(self, x: Hidden, mask: Mask | None) -> dict[str, Float[Tensor, "batch n _"]]:
        # Hidden before the convolution, which reads its neighbours whatever the mask says.
        return {"v": hide(functional.glu(self.gated(x), -1), mask)}

    def count(self, shape: Shape) -> int:
        return 2 * shape.heads * shape.head_dim * (shape.hidden + 1)


class LightConv(GatedConv):
    """Lightweight convolution (Wu et al. 2019, Section 3): w (heads, 2k+1), the same for all
    tokens. Xavier uniform.

    Parameters: L·(2d·(d+1) + H·(2k+1))

    Example:
        >>> conv, v = LightConv(Shape.example(), k=1), torch.arange(1.0, 4.0)[:, None].expand(1, 2, 3, 4)
        >>> _ = conv.weight.data.copy_(torch.tensor([0.0, 0.0, 999.0]))  # before the softmax
        >>> conv.heads(torch.zeros(1, 3, 8), None, v, None, (0.0, 0))[0, 0, :, 0].tolist()
        [2.0, 3.0, 0.0]
    """

    @checked
    def __init__(self, shape: Shape, k: Natural) -> None:
        super().__init__(shape, k)
        self.weight = glorot(shape.heads, 1, self.width, fans=(shape.heads + 1) * self.width)

    def heads(
        self,
        x: Hidden,
        q: Heads | None,
        v: Heads,
        mask: Mask | None,
        dropout: Draw | tuple[float, int],
    ) -> Heads:
        # one mask for all examples of a step
        weights = drop(torch.softmax(self.weight[:, 0], -1), Draw(*dropout[:2]))
        y = depthwise(
            v.transpose(1, 2).flatten(2),
            weights.repeat_interleave(self.shape.head_dim, 0),
        )
        return y.unflatten(2, (self.shape.heads, -1)).transpose(1, 2)

    def count(self, shape: Shape) -> int:
        return super().count(shape) + shape.heads * self.width


class DynamicConv(GatedConv):
    """Dynamic convolution (Wu et al. 2019, Section 4): w_i = W v_i (heads, 2k+1), made from what is
    convolved, behind the gate.

    Parameters: L·(2d·(d+1) + d·H·(2k+1))

    Differs from the authors' code: W starts from N(0, 0.02), as all linear maps do here.

    Example:
        >>> conv, v = DynamicConv(Shape.example(), k=1), torch.arange(1.0, 4.0)[:, None].expand(1, 2, 3, 4)
        >>> _ = conv.kernel.weight.data.zero_()  # all weights equal: a mean over three tokens, 0 outside
        >>> conv.heads(torch.zeros(1, 3, 8), None, v, None, (0.0, 0))[0, 0, :, 0]
        tensor([1.0000, 2.0000, 1.6667], grad_fn=<SelectBackward0>)
    """

    @checked
    def __init__(self, shape: Shape, k: Natural) -> None:
        super().__init__(shape, k)
        self.kernel = nn.Linear(shape.heads * shape.head_dim, shape.heads * self.width, bias=False)

    def heads(
        self,
        x: Hidden,
        q: Heads | None,
        v: Heads,
        mask: Mask | None,
        dropout: Draw | tuple[float, int],
    ) -> Heads:
        logits = (
            self.kernel(v.transpose(1, 2).flatten(2))
            .unflatten(2, (self.shape.heads, -1))
            .transpose(1, 2)
        )
        weights = torch.softmax(logits, -1, dtype=torch.promote_types(logits.dtype, torch.float32))
        return weighted(drop(weights, dropout), v)

    def count(self, shape: Shape) -> int:
        return super().count(shape) + shape.heads * shape.head_dim * shape.heads * self.width
