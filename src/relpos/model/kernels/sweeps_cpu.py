"""The single passes of `sweeps.py` on a CPU: calls of the compiled library (cpu.cpp). All tensors
lie in rows without gaps."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from relpos.errors import RelposError
from relpos.model.dropout import Draw
from relpos.model.kernels.compiled import DropoutCall, dropout_call, fields, pointer, run

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int64
PARTS = 64
"""The gradients of weights are summed in so many runs of rows, whatever the number of threads."""
KEEPS_ACTIVATION = False
"""A CPU computes an activation again sooner than it reads it from memory."""


class _NormCall(ctypes.Structure):
    """`NormCall` of cpu.cpp."""

    _fields_ = fields(
        (_INT, "rows width"),
        (_POINTER, "x y total out grad_y mean rstd weight bias grad_weight grad_bias"),
        (DropoutCall, "dropout"),
        (ctypes.c_double, "eps"),
        (_INT, "parts threads"),
    )


class _GeluCall(ctypes.Structure):
    """`GeluCall` of cpu.cpp."""

    _fields_ = fields(
        (_INT, "rows width"),
        (_POINTER, "x grad out again bias grad_bias"),
        (_INT, "parts threads"),
    )


class _ProductCall(ctypes.Structure):
    """`ProductCall` of cpu.cpp."""

    _fields_ = fields(
        (_INT, "rows columns depth"),
        (_POINTER, "a b"),
        (_INT, "a_row b_row a_transposed b_transposed"),
        (_POINTER, "bias beside out"),
        (_INT, "narrow threads"),
    )


class _TapsCall(ctypes.Structure):
    """`TapsCall` of cpu.cpp."""

    _fields_ = fields(
        (_INT, "batch n width taps"),
        (_POINTER, "x grad out"),
        (_INT, "threads"),
    )


class _SumCall(ctypes.Structure):
    """`SumCall` of cpu.cpp."""

    _fields_ = fields(
        (_INT, "groups rows width"),
        (_POINTER, "x out"),
        (_INT, "threads"),
    )


class _LossCall(ctypes.Structure):
    """`LossCall` of cpu.cpp."""

    _fields_ = fields(
        (_INT, "rows width"),
        (_POINTER, "logits bias target loss right"),
        (_INT, "threads"),
    )


def norm_forward(
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    draw: Draw,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """LN(x + drop(y)), the sum, and its mean and 1 / deviation by row."""
    total = torch.empty_like(x)
    out = torch.empty_like(x)
    rows = x.shape[:-1].numel()
    mean, rstd = x.new_empty(2, rows, dtype=torch.float32)
    dropout, alive = dropout_call(x.shape, draw)
    call = _NormCall(rows, x.shape[-1], pointer(x), pointer(y), pointer(total), pointer(out))
    call.mean, call.rstd, call.weight, call.bias = (
        pointer(mean),
        pointer(rstd),
        pointer(weight),
        pointer(bias),
    )
    call.dropout, call.eps, call.parts, call.threads = (
        dropout,
        eps,
        min(PARTS, rows),
        torch.get_num_threads(),
    )
    run("relpos_norm", call, x.dtype, backward=False)
    del alive
    return out, total, mean, rstd


def norm_backward(
    grad: Tensor,
    more: list[Tensor],
    total: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor,
    draw: Draw,
) -> tuple[Tensor, Tensor, Tensor]:
    """From the gradient of the result, the sum of `grad` and one that `more` may hold.

    Gradients of x and y; those of weight and bias, (2, parts, width), are still to be summed."""
    grad = sum(more, grad)
    grad_x = torch.empty_like(total)
    # without dropout both gradients are the same numbers
    grad_y = torch.empty_like(total) if draw.rate > 0 else grad_x
    rows = mean.numel()
    width = total.shape[-1]
    parts = min(PARTS, rows)
    sums = weight.new_zeros(2, parts, width)
    dropout, alive = dropout_call(total.shape, draw)
    call = _NormCall(
        rows,
        width,
        None,
        pointer(grad),
        pointer(total),
        pointer(grad_x),
        pointer(grad_y),
    )
    call.mean = pointer(mean)
    call.rstd = pointer(rstd)
    call.weight = pointer(weight)
    call.grad_weight = pointer(sums[0])
    call.grad_bias = pointer(sums[1])
    call.dropout, call.parts, call.threads = dropout, parts, torch.get_num_threads()
    run("relpos_norm", call, total.dtype, backward=True)
    del alive
    return grad_x, grad_y, sums


def product(
    a: Tensor,
    b: Tensor,
    transposed: tuple[bool, bool] = (False, False),
    bias: Tensor | None = None,
    beside: Tensor | None = None,
    narrow: bool = True,
) -> Tensor:
    """op(a) op(b) + bias + beside of matrices in rows, in their number format or, if it is not
    `narrow`, in float32."""
    depth, rows = a.shape if transposed[0] else a.shape[::-1]
    columns = b.shape[0 if transposed[1] else 1]
    # A sum over no rows, as in a pass without masked tokens, is written by no kernel.
    allocate = a.new_empty if depth else a.new_zeros
    out = allocate(rows, columns, dtype=a.dtype if narrow else torch.float32)
    call = _ProductCall(
        rows,
        columns,
        depth,
        pointer(a),
        pointer(b),
        a.stride(0),
        b.stride(0),
    )
    call.a_transposed, call.b_transposed = transposed
    call.bias, call.beside, call.out = map(pointer, (bias, beside, out))
    call.narrow, call.threads = narrow, torch.get_num_threads()
    run("relpos_product", call, a.dtype, backward=False)
    return out


def sum_rows(x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """(groups, rows, width) → (groups, width), summed in float32 in an order that depends on the
    number of rows alone."""
    out = x.new_empty(len(x), x.shape[2], dtype=torch.float32)
    call = _SumCall(*x.shape, pointer(x), pointer(out), torch.get_num_threads())
    run("relpos_sum", call, x.dtype, backward=False)
    return out.to(dtype)


def gelu_forward(wide: Tensor, bias: Tensor) -> Tensor:
    """GELU(wide + bias), (rows, width)."""
    active = torch.empty_like(wide)
    _gelu(wide, bias, active)
    return active


def gelu_backward(
    wide: Tensor,
    bias: Tensor,
    grad: Tensor,
    _active: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of `wide`, written over `grad`; the activation; the gradient of the bias,
    (parts, width), still to be summed."""
    active = torch.empty_like(wide)
    sums = bias.new_zeros(min(PARTS, len(wide)), len(bias))
    _gelu(wide, bias, grad, grad, active, sums)
    return grad, active, sums


def _gelu(
    x: Tensor,
    bias: Tensor,
    out: Tensor,
    grad: Tensor | None = None,
    again: Tensor | None = None,
    sums: Tensor | None = None,
) -> None:
    call = _GeluCall(*x.shape, *map(pointer, (x, grad, out, again, bias, sums)))
    call.parts = min(PARTS, len(x))
    call.threads = torch.get_num_threads()
    run("relpos_gelu", call, x.dtype, backward=grad is not None)


def cross_entropy_(
    logits: Tensor,
    bias: Tensor,
    target: Tensor,
    counts: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See `sweeps.cross_entropy_`.

    Raises:
        RelposError: a target is no column.
    """
    # The library trusts them, and would write beyond the end of a row.
    if len(target) and not 0 <= int(target.min()) <= int(target.max()) < len(bias):
        raise RelposError(
            f"labels from {int(target.min())} to {int(target.max())} in a vocabulary of {len(bias)}"
        )
    result = logits.new_empty(2, len(logits), dtype=torch.float32)
    call = _LossCall(
        *logits.shape,
        *map(pointer, (logits, bias, target, *result)),
        torch.get_num_threads(),
    )
    run("relpos_loss", call, logits.dtype, backward=False)
    if counts is not None:
        result.mul_(counts)
        logits.mul_(counts[:, None])
    return result[0], result[1]


def grad_taps(x: Tensor, grad: Tensor, taps: int) -> Tensor:
    """The gradient of the weights of a depthwise convolution, (channels, taps), from that of its
    output (batch, n, channels): Σ grad_i x_{i+r} for r = −k..k."""
    out = x.new_empty(x.shape[2], taps, dtype=torch.float32)
    call = _TapsCall(
        *x.shape,
        taps,
        pointer(x),
        pointer(grad),
        pointer(out),
        torch.get_num_threads(),
    )
    run("relpos_taps", call, x.dtype, backward=True)
    return out.to(x.dtype)
