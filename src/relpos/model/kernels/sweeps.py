"""Single passes over activations (cpu.cpp), forward and backward: LN(x + drop(y)), bias + GELU between two linear maps,
cross-entropy, and the gradient of depthwise weights."""

from __future__ import annotations

import ctypes
import warnings
from functools import cache
from itertools import product
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from relpos.counter import normal
from relpos.errors import RelposError
from relpos.model import residual
from relpos.model.dropout import Draw
from relpos.model.kernels import proof
from relpos.model.kernels.compiled import DropoutCall, dropout_call, pointer, run
from relpos.model.precision import cast_once

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int64
PARTS = 64
"""The gradients of weights are summed in so many runs of rows, whatever the number of threads."""


class _NormCall(ctypes.Structure):
    """`NormCall` of cpu.cpp."""

    _fields_ = (
        *((name, _INT) for name in ("rows", "width")),
        *((name, _POINTER) for name in ("x", "y", "total", "out", "grad_y", "mean", "rstd", "weight", "bias")),
        *((name, _POINTER) for name in ("grad_weight", "grad_bias")),
        ("dropout", DropoutCall),
        ("eps", ctypes.c_double),
        *((name, _INT) for name in ("parts", "threads")),
    )


class _GeluCall(ctypes.Structure):
    """`GeluCall` of cpu.cpp."""

    _fields_ = (
        *((name, _INT) for name in ("rows", "width")),
        *((name, _POINTER) for name in ("x", "grad", "out", "again", "bias", "grad_bias")),
        *((name, _INT) for name in ("parts", "threads")),
    )


class _TapsCall(ctypes.Structure):
    """`TapsCall` of cpu.cpp."""

    _fields_ = (
        *((name, _INT) for name in ("batch", "n", "width", "taps")),
        *((name, _POINTER) for name in ("x", "grad", "out")),
        ("threads", _INT),
    )


class _LossCall(ctypes.Structure):
    """`LossCall` of cpu.cpp."""

    _fields_ = (
        *((name, _INT) for name in ("rows", "width")),
        *((name, _POINTER) for name in ("logits", "bias", "target", "loss", "right")),
        ("threads", _INT),
    )


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, eps: float, draw: Draw) -> Tensor:
        x, y = x.contiguous(), y.contiguous()
        total, out = torch.empty_like(x), torch.empty_like(x)
        rows = x.shape[:-1].numel()
        mean, rstd = x.new_empty(2, rows, dtype=torch.float32)
        weight, bias = weight.float(), bias.float()
        dropout, alive = dropout_call(x.shape, draw)
        call = _NormCall(rows, x.shape[-1], pointer(x), pointer(y), pointer(total), pointer(out))
        call.mean, call.rstd, call.weight, call.bias = pointer(mean), pointer(rstd), pointer(weight), pointer(bias)
        call.dropout, call.eps, call.parts, call.threads = dropout, eps, min(PARTS, rows), torch.get_num_threads()
        run("relpos_norm", call, x.dtype, backward=False)
        del alive
        ctx.save_for_backward(total, mean, rstd, weight)
        ctx.draw = draw
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        total, mean, rstd, weight = ctx.saved_tensors
        grad, grad_x = grad.contiguous(), torch.empty_like(total)
        grad_y = torch.empty_like(total) if ctx.draw.rate > 0 else grad_x  # without dropout both gradients are the same numbers
        rows, width = mean.numel(), total.shape[-1]
        parts = min(PARTS, rows)
        sums = weight.new_zeros(2, parts, width)
        dropout, alive = dropout_call(total.shape, ctx.draw)
        call = _NormCall(rows, width, None, pointer(grad), pointer(total), pointer(grad_x), pointer(grad_y))
        call.mean, call.rstd, call.weight = pointer(mean), pointer(rstd), pointer(weight)
        call.grad_weight, call.grad_bias = pointer(sums[0]), pointer(sums[1])
        call.dropout, call.parts, call.threads = dropout, parts, torch.get_num_threads()
        run("relpos_norm", call, total.dtype, backward=True)
        del alive
        grad_weight, grad_bias = sums.sum(1)
        return grad_x, grad_y, grad_weight, grad_bias, None, None


@cache
def hold(dtype: torch.dtype) -> bool:
    """Whether the compiled passes equal plain torch in this number format. Found out once; where not, one warning says so."""
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
        for name, width in product(("add_norm", "feed_forward", "cross_entropy", "grad_taps"), (37, 256)):
            exact, plain, tested = (_example(name, width, *how) for how in ((torch.float64, False), (dtype, False), (dtype, True)))
            for number, expected in enumerate(exact):
                if not proof.close(tested[number], plain[number], expected, dtype):
                    warnings.warn(f"the compiled {name} is off in {dtype}: plain torch computes instead", stacklevel=3)
                    return False
    return True


def _example(name: str, width: int, dtype: torch.dtype, compiled: bool) -> list[Tensor]:
    """Values and gradients of one of the passes on a few numbers, in float64."""
    # Rounded to bfloat16 first, so that every number format starts from the same numbers.
    x, y, upstream = (normal(place, torch.arange(6 * width)).view(2, 3, width).bfloat16().to(dtype) for place in range(3))
    norm, draw = nn.LayerNorm(width).to(dtype), Draw(0.25, 1234567)
    inputs = [x.requires_grad_(), y.requires_grad_(), *norm.parameters()]
    if name == "add_norm":
        result = (add_norm if compiled else residual.add_norm)(x, y, norm, draw)
    elif name == "feed_forward":
        widen, narrow = (_example_linear(width, place).to(dtype) for place in (3, 4))
        inputs = [x.requires_grad_(), *widen.parameters(), *narrow.parameters()]
        result = feed_forward(x, widen, narrow) if compiled else narrow(nn.functional.gelu(widen(x)))
    elif name == "grad_taps":
        return [(grad_taps if compiled else _plain_grad_taps)(x.detach(), y.detach(), 5).double()]
    else:
        return [value.double() for value in _example_loss(x.detach().flatten(0, 1), y.detach()[0, 0], compiled)]
    result.backward(upstream)
    return [value.detach().double() for value in (result, *(part.grad for part in inputs if part.grad is not None))]


def _example_linear(width: int, place: int) -> nn.Linear:
    linear = nn.utils.skip_init(nn.Linear, width, width)  # draws nothing from torch's generator
    with torch.no_grad():
        linear.weight.copy_(normal(place, torch.arange(width * width)).view(width, width).bfloat16() / 16)
        linear.bias.copy_(normal(-place, torch.arange(width)).bfloat16())
    return linear


def _plain_grad_taps(x: Tensor, grad: Tensor, taps: int) -> Tensor:
    n, padded = x.shape[1], nn.functional.pad(x, (0, 0, taps // 2, taps // 2))
    return torch.stack([(padded[:, r : r + n] * grad).sum((0, 1)) for r in range(taps)], 1)


def _example_loss(logits: Tensor, bias: Tensor, compiled: bool) -> list[Tensor]:
    """The losses of six rows, then softmax − one-hot."""
    target = torch.arange(6)
    if compiled:
        return [cross_entropy_(logits, bias, target)[0], logits]
    logits = logits + bias
    one_hot = nn.functional.one_hot(target, logits.shape[1])
    return [
        nn.functional.cross_entropy(logits.float() if logits.dtype == torch.bfloat16 else logits, target, reduction="none"),
        logits.softmax(1) - one_hot,
    ]


def add_norm(
    x: Float[Tensor, "*batch hidden"], y: Float[Tensor, "*batch hidden"], norm: nn.LayerNorm, draw: Draw
) -> Float[Tensor, "*batch hidden"]:
    """LN(x + drop(y))."""
    return _AddNorm.apply(x.to(y.dtype), y, norm.weight, norm.bias, norm.eps, draw)


class _FeedForward(torch.autograd.Function):
    """Keeps W_1 x, but not the activation, which the backward pass computes again on its way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, widen: Tensor, inner: Tensor, narrow: Tensor, outer: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        wide, inner = rows @ widen.t(), inner.float()
        active = torch.empty_like(wide)
        _gelu(wide, inner, active)
        ctx.save_for_backward(rows, wide, widen, inner, narrow)
        return torch.addmm(outer, active, narrow.t()).view(*x.shape[:-1], len(narrow))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        rows, wide, widen, inner, narrow = ctx.saved_tensors
        shape, grad = grad.shape, grad.flatten(0, -2)
        of_wide, active = grad @ narrow, torch.empty_like(wide)
        sums = inner.new_zeros(min(PARTS, len(rows)), len(inner))
        _gelu(wide, inner, of_wide, of_wide, active, sums)
        of_x = (of_wide @ widen).view(*shape[:-1], widen.shape[1])
        return of_x, of_wide.t() @ rows, sums.sum(0), grad.t() @ active, grad.sum(0)


def _gelu(
    x: Tensor, bias: Tensor, out: Tensor, grad: Tensor | None = None, again: Tensor | None = None, sums: Tensor | None = None
) -> None:
    call = _GeluCall(*x.shape, *map(pointer, (x, grad, out, again, bias, sums)))
    call.parts, call.threads = min(PARTS, len(x)), torch.get_num_threads()
    run("relpos_gelu", call, x.dtype, backward=grad is not None)


def feed_forward(x: Float[Tensor, "*batch hidden"], widen: nn.Linear, narrow: nn.Linear) -> Float[Tensor, "*batch hidden"]:
    """W_2 GELU(W_1 x + b_1) + b_2, with the exact GELU."""
    outer = narrow.bias.to(x.dtype)
    y: Tensor = _FeedForward.apply(x, cast_once(widen.weight, x.dtype), widen.bias, cast_once(narrow.weight, x.dtype), outer)
    return y


def cross_entropy_(logits: Tensor, bias: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Turns logits (rows, V) without their bias into softmax − one-hot.

    Returns:
        (rows,) −log softmax of the targets, and (rows,) 1 where no other logit is higher than that of the target.
    """
    # The library trusts them, and would write beyond the end of a row.
    if len(target) and not 0 <= int(target.min()) <= int(target.max()) < len(bias):
        raise RelposError(f"labels from {int(target.min())} to {int(target.max())} in a vocabulary of {len(bias)}")
    target = target.to(torch.int64).contiguous()
    bias, result = bias.float(), logits.new_empty(2, len(logits), dtype=torch.float32)
    call = _LossCall(*logits.shape, *map(pointer, (logits, bias, target, *result)), torch.get_num_threads())
    run("relpos_loss", call, logits.dtype, backward=False)
    return result[0], result[1]


def grad_taps(
    x: Float[Tensor, "batch n channels"], grad: Float[Tensor, "batch n channels"], taps: int
) -> Float[Tensor, "channels {taps}"]:
    """The gradient of the weights of a depthwise convolution from that of its output: Σ grad_i x_{i+r} for r = −k..k."""
    out = x.new_empty(x.shape[2], taps, dtype=torch.float32)
    call = _TapsCall(*x.shape, taps, pointer(x), pointer(grad), pointer(out), torch.get_num_threads())
    run("relpos_taps", call, x.dtype, backward=True)
    return out.to(x.dtype)
