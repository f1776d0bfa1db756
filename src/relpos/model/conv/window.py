"""Weighted sums over a window around each token: y_i = Σ_r w_r x_{i+r}, r = −k..k. Tokens outside
the sequence count as 0.

Weights of 2k+1 numbers hold offset r in entry r + k: the one after the middle reads the next token.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from relpos.model.kernels import sweeps
from relpos.model.kernels.band import add_band_, read_band
from relpos.model.precision import as_given, compute_dtype, has_bf16
from relpos.model.shape import Heads, Mask, mapped

Channels = Float[Tensor, "batch n channels"]


def hide(x: Channels, mask: Mask | None) -> Channels:
    """x, zero at padding."""
    return x if mask is None else x * mask[:, :, None].to(x.dtype)


def depthwise(
    x: Channels,
    weight: Float[Tensor, "channels width"],
    bias: Float[Tensor, "channels"] | None = None,
) -> Channels:
    """Each channel has weights of its own."""
    return depthwise_each(x, (weight, bias))[0]


def depthwise_each(
    x: Channels,
    *kernels: tuple[Float[Tensor, "channels _"], Float[Tensor, "channels"] | None],
) -> list[Channels]:
    """`depthwise` of one x with each (weight, bias); together they cost less than one by one."""
    dtype = compute_dtype(x)
    x, flat = x.to(dtype), mapped(lambda part: part.to(dtype), *chain.from_iterable(kernels))
    if not torch.compiler.is_compiling() and (
        x.device.type == "cpu" or sweeps.serve("auto", x, training=True)
    ):
        return list(_Depthwise.apply(x, *flat))
    return [_conv1d(x, flat[i], flat[i + 1]) for i in range(0, len(flat), 2)]


def _conv1d(x: Tensor, weight: Any, bias: Tensor | None) -> Tensor:
    y = functional.conv1d(
        x.transpose(1, 2),
        weight[:, None],
        bias,
        padding=weight.shape[1] // 2,
        groups=len(weight),
    )
    return y.transpose(1, 2)


def weighted(weights: Float[Tensor, "batch heads n width"], v: Heads) -> Heads:
    """Each token and head has weights of its own."""
    dtype = compute_dtype(v)
    return _Weighted.apply(weights.to(dtype), v.to(dtype))


class _Depthwise(torch.autograd.Function):
    """A single pass on CUDA. On a CPU, `conv1d` lays its input out anew, and its gradient of the
    weights is ten times slower than all else.

    Here the tokens are the columns of an image of one row with its channels last, which is how x
    lies in memory; for the gradient of the weights they are the rows, and the sequences of the
    batch are the columns.
    """

    @staticmethod
    @as_given
    def forward(ctx: Any, x: Tensor, *kernels: Any) -> tuple[Tensor, ...]:
        x = x.contiguous()
        weights = kernels[::2]
        biases = kernels[1::2]
        ctx.save_for_backward(x, *weights)
        ctx.biased = [bias is not None for bias in biases]
        return tuple(
            _along_columns(x, weight, bias) for weight, bias in zip(weights, biases, strict=True)
        )

    @staticmethod
    @torch.autograd.function.once_differentiable
    @as_given
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        swept = sweeps.serve("auto", x, training=True)
        rows, grad_x, grad_kernels = x if swept else _tokens_as_rows(x), None, []
        for grad, weight, biased in zip(grads, weights, ctx.biased, strict=True):
            grad = grad.contiguous()
            # The adjoint of a correlation is the correlation with mirrored weights.
            part = _along_columns(grad, weight.flip(1), None)
            grad_x = part if grad_x is None else grad_x.add_(part)
            grad_weight = (
                sweeps.passes(x).grad_taps(x, grad, weight.shape[1])
                if swept
                else _grad_weight(grad, rows, weight)
            )
            grad_kernels += [grad_weight, grad.sum((0, 1)) if biased else None]
        return grad_x, *grad_kernels


def _along_columns(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if x.device.type != "cpu":
        y: Tensor = sweeps.passes(x).taps(x, weight, bias)
        return y
    # With a wide window and so few channels oneDNN 3 never returns.
    if x.dtype == torch.bfloat16 and (x.shape[2] <= 16 or not has_bf16()):
        with torch.autocast("cpu", enabled=False):
            return _along_columns(
                x.float(),
                weight.float(),
                None if bias is None else bias.float(),
            ).bfloat16()
    # (B, C, 1, n), (C, 1, 1, 2k+1)
    image = x.transpose(1, 2)[:, :, None]
    taps = weight[:, None, None]
    y = functional.conv2d(image, taps, bias, padding=(0, weight.shape[1] // 2), groups=len(weight))
    return y[:, :, 0].transpose(1, 2)


def _grad_weight(grad: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    taps = weight[:, None, :, None]  # (C, 1, 2k+1, 1)
    # stride, padding, dilation, …, groups
    sizes = [1, 1], [weight.shape[1] // 2, 0], [1, 1], False, [0, 0], len(weight)
    which = [False, True, False]  # gradients: of the input, the weights, the bias
    grad_taps: Tensor = torch.ops.aten.convolution_backward(
        _tokens_as_rows(grad),
        rows,
        taps,
        None,
        *sizes,
        which,
    )[1]
    return grad_taps.reshape(weight.shape)


def _tokens_as_rows(x: Tensor) -> Tensor:
    """(B, n, C) → (1, C, n, B), channels last."""
    return x.transpose(0, 1).contiguous()[None].permute(0, 3, 1, 2)


class _Weighted(torch.autograd.Function):
    """As the product of a band matrix with the values."""

    @staticmethod
    @as_given
    def forward(ctx: Any, weights: Tensor, v: Tensor) -> Tensor:
        ctx.shape, ctx.width = v.shape, weights.shape[-1]
        v = v.reshape(-1, *v.shape[2:])  # (M, n, d)
        band = v.new_zeros(len(v), v.shape[1], v.shape[1])
        add_band_(band, weights.reshape(len(v), v.shape[1], -1))
        ctx.save_for_backward(band, v)
        return torch.bmm(band, v).view(ctx.shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    @as_given
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        band, v = ctx.saved_tensors
        grad = grad.reshape(v.shape)
        grad_weights = read_band(torch.bmm(grad, v.transpose(1, 2)), ctx.width // 2)
        return grad_weights.view(*ctx.shape[:3], ctx.width), torch.bmm(
            band.transpose(1, 2),
            grad,
        ).view(ctx.shape)
