"""What the layers are made of besides attention: where the norm stands and which it is, the
feed-forward network, biases; and x ← LN(x + drop(y)) as one step of differentiation, x ← x +
drop(y) where the norm stands elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from relpos.model.architecture import Activation, NormKind
from relpos.model.dropout import Draw, drop, keep_bits, rescale, zero_dropped
from relpos.model.precision import as_given

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
}
Norm = nn.LayerNorm | nn.RMSNorm


@dataclass(frozen=True)
class Block:
    """The choices of a layer; the defaults are the post-layer-norm BERT of the papers. See
    `Size` for what each means."""

    dropout: float = 0.1
    attention_dropout: float = 0.1
    activation: Activation = "gelu"
    norm_eps: float = 1e-12
    norm_first: bool = False
    norm: NormKind = "layer"
    glu: bool = False
    bias: bool = True
    qk_norm: bool = False

    @property
    def plain(self) -> bool:
        """Whether norms are layer norms and maps add biases, as in the papers' networks, for which
        the single passes are written."""
        return self.bias and self.norm == "layer"

    def norm_of(self, width: int) -> Norm:
        """A norm over vectors of this width: x ↦ g ⊙ (x − mean) / √(variance + eps) + b, or with
        `rms` x ↦ g ⊙ x / √(mean of x² + eps) (Zhang & Sennrich 2019, Eq. 4)."""
        if self.norm == "rms":
            return nn.RMSNorm(width, eps=self.norm_eps)
        return nn.LayerNorm(width, eps=self.norm_eps, bias=self.bias)

    def inner(self, ffn: int) -> int:
        """How many inner vectors the feed-forward network has before the activation."""
        return 2 * ffn if self.glu else ffn

    def activate(self, inner: Float[Tensor, "*tokens inner"]) -> Float[Tensor, "*tokens ffn"]:
        """act(inner), or with `glu` act(a) ⊙ b for inner = (a, b) (Shazeer 2020, Eq. 6: GEGLU with
        `gelu`, SwiGLU with `silu`)."""
        activation = ACTIVATIONS[self.activation]
        if not self.glu:
            return activation(inner)
        a, b = inner.chunk(2, -1)
        return activation(a) * b


class _AddNorm(torch.autograd.Function):
    """Keeps the sum, and two bytes per element for the mask. The normalisation is in float32
    inside, whatever the number format."""

    @staticmethod
    @as_given
    def forward(
        ctx: Any,
        x: Tensor,
        y: Tensor,
        weight: Tensor,
        bias: Tensor,
        eps: float,
        draw: Draw,
    ) -> Tensor:
        bits = keep_bits(y.shape, draw, y.device) if draw.rate > 0 else None
        ctx.rescale = rescale(draw.rate)
        total = x.add(y if bits is None else zero_dropped(y, bits), alpha=ctx.rescale)
        out, mean, rstd = torch.native_layer_norm(
            _wide(total, weight),
            weight.shape,
            weight,
            bias,
            eps,
        )
        ctx.save_for_backward(total, mean, rstd, weight, bias, bits)
        return out.to(total.dtype)

    @staticmethod
    @once_differentiable
    @as_given
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        total, mean, rstd, weight, bias, bits = ctx.saved_tensors
        grad_x, grad_weight, grad_bias = torch.ops.aten.native_layer_norm_backward(
            _wide(grad, weight).contiguous(),
            _wide(total, weight),
            weight.shape,
            mean,
            rstd,
            weight,
            bias,
            [True, True, True],
        )
        grad_x = grad_x.to(total.dtype)
        grad_y = grad_x if bits is None else zero_dropped(grad_x, bits).mul_(ctx.rescale)
        return grad_x, grad_y, grad_weight, grad_bias, None, None


def _wide(x: Tensor, weight: Tensor) -> Tensor:
    # A CPU's kernel takes activations in bfloat16 beside gains in float32; CUDA's takes one number
    # format.
    return x if x.device.type == "cpu" else x.to(weight.dtype)


def add_norm(
    x: Float[Tensor, "*batch hidden"],
    y: Float[Tensor, "*batch hidden"],
    norm: Norm,
    dropout: Draw | tuple[float, int],
) -> Float[Tensor, "*batch hidden"]:
    """norm(x + drop(y))."""
    # `_AddNorm` is written for the norm of the papers' networks; a compiler fuses what it can see.
    if (
        isinstance(norm, nn.LayerNorm)
        and norm.bias is not None
        and not torch.compiler.is_compiling()
    ):
        out: Tensor = _AddNorm.apply(
            x.to(y.dtype),
            y,
            norm.weight,
            norm.bias,
            norm.eps,
            Draw(*dropout),
        )
        return out
    return normed(added(x, y, dropout), norm)


def added(
    x: Float[Tensor, "*batch hidden"],
    y: Float[Tensor, "*batch hidden"],
    dropout: Draw | tuple[float, int],
) -> Float[Tensor, "*batch hidden"]:
    """x + drop(y)."""
    return x.to(y.dtype) + drop(y, dropout)


def normed(x: Float[Tensor, "*batch width"], norm: nn.Module) -> Float[Tensor, "*batch width"]:
    """norm(x) in the number format of x, computed in that of the norm's gains; `nn.Identity` is no
    norm."""
    if isinstance(norm, nn.Identity):
        return x
    y: Tensor = norm(x.to(norm.get_parameter("weight").dtype))
    return y.to(x.dtype)
