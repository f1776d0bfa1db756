"""Rotary positions whose angles the text makes (Movahedi et al. 2025, Selective RoPE), with a
centred convolution."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from relpos.errors import RelposError
from relpos.model.initial import uniform_
from relpos.model.position.base import Input, Scheme
from relpos.model.precision import as_given
from relpos.model.shape import Heads, Shape
from relpos.ranges import Count, Natural, Positive, checked

Angles = Float[Tensor, "batch n heads pairs"]


class SelectiveRope(Scheme):
    """(q_t)_m ↦ e^(i θ_m Φ_{t,m}) (q_t)_m with Φ_t = Σ_{l≤t} φ_l and φ_l = Σ_{r=−side…side} w_r ∘
    (U D x̂_{l+r}), k_t likewise; the complex (q_t)_m are channels (2m, 2m+1). x̂ is the layer's
    normed input at the length √H. D maps it to `rank` numbers, U these to an angle for each head
    and pair of channels, and w has `side` taps to either side. θ_m = base^(−2m/head_dim) is not
    learned. Values are not turned, and the scale follows. q_i·k_j then depends on the tokens i and
    j and on those between them, not on places. A token of padding has φ = 0. Runs at any length.

    φ that is 1 everywhere is RoPE, 0 is no positions. D, U and w belong to one layer each and start
    uniform in ±1/√inputs, as torch starts linear maps and convolutions. Φ and products with it are
    float32 (float64 in a model of float64), whatever q and k are.

    Parameters: L·(rank·d + H·d_h/2·(rank + 2·side + 1))

    Differs from the authors' code: a decoder, whose convolution has 4 taps, none on the right. It
    norms the part of x of each head by itself, pairs channel m with m + head_dim/2, and may gate φ.
    In its Transformers D, U and w start from N(0, 0.02), which makes the first angles about a
    hundredth of those here.

    Raises:
        RelposError: head_dim is odd.

    Example:
        >>> scheme = SelectiveRope(Shape.example(), rank=2, side=1)
        >>> scheme.down.shape, scheme.up.shape, scheme.taps.shape  # 2 layers; 2 heads of 2 pairs
        (torch.Size([2, 2, 8]), torch.Size([2, 4, 2]), torch.Size([2, 4, 3]))
    """

    @checked
    def __init__(
        self,
        shape: Shape,
        rank: Count = 16,
        side: Natural = 1,
        base: Positive = 500000.0,
    ) -> None:
        super().__init__(shape)
        if shape.head_dim % 2:
            raise RelposError(
                f"SelectiveRope turns pairs of channels: head_dim = hidden / heads must be even, "
                f"not {shape.head_dim}"
            )
        self.rank, self.side, self.base = rank, side, float(base)
        self.reads_ahead = side > 0
        pairs = shape.heads * shape.head_dim // 2
        width = 2 * side + 1
        self.down = _drawn(shape.layers, rank, shape.hidden)  # D
        self.up = _drawn(shape.layers, pairs, rank)  # U
        self.taps = _drawn(shape.layers, pairs, width)  # w, from the left to the right
        wave = self.base ** (
            -torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
        )
        self.keep_exact("wave", wave)  # θ

    def see(self, layer: int, given: Input, state: None) -> Angles:
        """θ Φ of each token, head and pair of channels."""
        low = functional.linear(
            functional.normalize(given.x, dim=-1) * self.shape.heads**0.5,
            self.down[layer],
        )
        # The convolution of the last token reads padding, which must not reach it.
        low = given.zero_padding(given.held.spread(low))  # (B, n, rank)
        padded = functional.pad(low, (0, 0, self.side, self.side))
        around = torch.stack(
            [padded[:, r : r + low.shape[1]] for r in range(2 * self.side + 1)], -1
        )
        # the convolution, of the few numbers instead of the many
        both = self.up[layer, :, :, None] * self.taps[layer, :, None, :]
        steps = functional.linear(around.flatten(2), both.flatten(1))
        # And the sum must not go on where the convolution reads text from padding.
        steps = given.zero_padding(steps.to(torch.promote_types(steps.dtype, torch.float32)))
        return steps.cumsum(1).unflatten(2, (self.shape.heads, -1)) * self.exact("wave").to(
            steps.dtype
        )

    def turn(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        v: Heads,
        state: Angles,
    ) -> tuple[Heads, Heads, Heads]:
        q, k = (x.transpose(1, 2) for x in _Turn.apply(q.transpose(1, 2), k.transpose(1, 2), state))
        return q, k, v

    def count(self, shape: Shape) -> int:
        return shape.layers * (
            self.rank * shape.hidden
            + shape.heads * shape.head_dim // 2 * (self.rank + 2 * self.side + 1)
        )


class _Turn(torch.autograd.Function):
    """x' = x e^(iθ) for queries and keys (B, n, H, head_dim), in one step of differentiation: with
    G the gradient of x', that of x is g = G e^(−iθ), and that of θ is Im(x̄ g)."""

    @staticmethod
    @as_given
    def forward(ctx: Any, q: Tensor, k: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
        turns = torch.complex(angle.cos(), angle.sin())
        ctx.save_for_backward(q, k, turns)
        return _turned(q, turns), _turned(k, turns)

    @staticmethod
    @once_differentiable
    @as_given
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        q, k, turns = ctx.saved_tensors
        back, of_x, of_angle = turns.conj_physical(), [], []
        for x, grad in zip((q, k), grads, strict=True):
            turned = _pairs(grad, turns) * back
            of_x.append(torch.view_as_real(turned).flatten(-2).to(x.dtype))
            of_angle.append((turned * _pairs(x, turns).conj()).imag)
        return *of_x, of_angle[0] + of_angle[1]


def _pairs(x: Tensor, like: Tensor) -> Tensor:
    return torch.view_as_complex(x.to(like.real.dtype).contiguous().unflatten(-1, (-1, 2)))


def _turned(x: Tensor, turns: Tensor) -> Tensor:
    return torch.view_as_real(_pairs(x, turns) * turns).flatten(-2).to(x.dtype)


def _drawn(layers: int, outputs: int, inputs: int) -> nn.Parameter:
    """(layers, outputs, inputs), uniform in ±1/√inputs."""
    return uniform_(
        nn.Parameter(torch.empty(layers, outputs, inputs)),
        -(inputs**-0.5),
        inputs**-0.5,
    )
