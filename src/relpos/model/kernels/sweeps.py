"""Single passes over activations, forward and backward: LN(x + drop(y)), bias + GELU between two
linear maps, cross-entropy, and depthwise convolutions, on CUDA also x + drop(y). `sweeps_cpu`
computes them on a CPU, `triton_sweeps` on CUDA; plain torch is what both must equal.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from itertools import product
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from relpos.counter import normal
from relpos.errors import with_class
from relpos.model import block
from relpos.model.dropout import Draw, drop, transformed
from relpos.model.kernels import compiled, proof, sweeps_cpu, triton
from relpos.model.precision import as_given, cast_once, compute_dtype, rounded


def serve(name: str, x: Tensor, training: bool) -> bool:
    """Whether single passes are to be used on tensors like x.

    Args:
        name: of the attention kernel asked for: plain torch there is plain torch here.
    """
    kernel: ModuleType = compiled
    if x.device.type == "cuda":
        kernel = triton
    own = kernel.__name__.rpartition(".")[2]
    return (
        name in ("auto", own)
        and kernel.serves(x, training)
        and hold(x.device.type, compute_dtype(x))
    )


def passes(x: Tensor) -> ModuleType:
    """The module whose functions compute on tensors like x."""
    if x.device.type == "cpu":
        return sweeps_cpu
    # Triton compiles, or interprets, what is imported: not before it is needed.
    return import_module("relpos.model.kernels.triton_sweeps")


class _SweptDrop(torch.autograd.Function):
    """On CUDA alone. Keeps no mask: it is drawn again."""

    @staticmethod
    @as_given
    def forward(ctx: Any, y: Tensor, draw: Draw, x: Tensor | None) -> Tensor:
        ctx.draw, ctx.adds = draw, x is not None
        if x is not None:
            x = x.contiguous()
        result: Tensor = passes(y).drop(y.contiguous(), draw, x)
        return result

    @staticmethod
    @once_differentiable
    @as_given
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_x = None
        if ctx.adds:
            grad_x = grad
        return passes(grad).drop(grad.contiguous(), ctx.draw), None, grad_x


def dropped(
    name: str,
    y: Float[Tensor, "*batch hidden"],
    draw: Draw,
    x: Float[Tensor, "*batch hidden"] | None = None,
) -> Float[Tensor, "*batch hidden"]:
    """drop(y), or x + drop(y) in the number format of y; `name` as for `serve`."""
    if draw.rate > 0 and y.device.type != "cpu" and not transformed() and serve(name, y, True):
        if x is not None:
            x = x.to(y.dtype)
        y = _SweptDrop.apply(y, draw, x)
        return y
    if x is None:
        return drop(y, draw)
    return block.added(x, y, draw)


class _SweptAddNorm(torch.autograd.Function):
    @staticmethod
    @as_given
    def forward(
        ctx: Any, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, eps: float, draw: Draw, *beside: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        weight = weight.float()
        out, *kept = passes(x).norm_forward(
            x.contiguous(),
            y.contiguous(),
            weight,
            bias.float(),
            eps,
            draw,
            *beside,
        )
        ctx.save_for_backward(*kept, weight)
        ctx.draw, ctx.beside = draw, bool(beside)
        ctx.set_materialize_grads(False)
        return out, out.view_as(out)

    @staticmethod
    @once_differentiable
    @as_given
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        grad, *more = [grad.contiguous() for grad in grads if grad is not None]
        beside = [True] if ctx.beside else []
        grad_x, grad_y, sums = passes(grad).norm_backward(
            grad,
            more,
            *ctx.saved_tensors,
            ctx.draw,
            *beside,
        )
        grad_weight, grad_bias, *grad_beside = passes(grad).sum_rows(sums)
        return grad_x, grad_y, grad_weight, grad_bias, None, None, *grad_beside


@cache
def hold(device: str, dtype: torch.dtype) -> bool:
    """Whether the single passes equal plain torch on this device in this number format. Found out
    once; where not, one warning says so."""
    return proof.proven(
        device,
        f"the compiled {{}} in {dtype} on {device}: plain torch computes instead",
        fault_of,
        device,
        dtype,
    )


def fault_of(device: str, dtype: torch.dtype) -> str | None:
    """Names the first single pass that is off or fails; None: there is none."""
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast(device, enabled=False),
        torch.device(device),
    ):
        for name, width in product(
            ("add_norm", "added", "feed_forward", "transform", "cross_entropy", "depthwise"),
            (37, 256),
        ):
            try:
                exact, plain, tested = (
                    _example(name, width, *how)
                    for how in ((torch.float64, False), (dtype, False), (dtype, True))
                )
            except (
                Exception
            ) as error:  # of any kind: the passes are optional, and training goes on without them
                return f"{name} fails ({with_class(error)})"
            if not all(
                proof.close(*values, dtype) for values in zip(tested, plain, exact, strict=True)
            ):
                return f"{name} is off"
    return None


def _example(name: str, width: int, dtype: torch.dtype, compiled: bool) -> list[Tensor]:
    """Values and gradients of one of the passes on a few numbers, in float64."""
    # Rounded to bfloat16 first, so that every number format starts from the same numbers.
    x, y, upstream = (
        normal(place, torch.arange(80 * width)).view(2, 40, width).bfloat16().to(dtype)
        for place in range(3)
    )
    norm = nn.LayerNorm(width).to(dtype)
    draw = Draw(0.25, 1234567)
    inputs = [x.requires_grad_(), y.requires_grad_(), *norm.parameters()]
    if name == "add_norm":
        if compiled:
            first, second = add_norm(x, y, norm, draw)
        else:
            first = second = block.add_norm(x, y, norm, draw)
        result = first + 0.5 * second
    elif name == "added":
        if compiled and passes(x) is not sweeps_cpu:
            result = _SweptDrop.apply(y, draw, x)
        else:
            result = block.added(x, y, draw)
    elif name == "feed_forward":
        widen, narrow = (_example_linear(width, place).to(dtype) for place in (3, 4))
        inputs = [x.requires_grad_(), *widen.parameters(), *narrow.parameters()]
        if compiled:
            result = feed_forward(x, widen, narrow)
        else:
            result = narrow(nn.functional.gelu(widen(x)))
    elif name == "transform":
        narrow = _example_linear(width, 3).to(dtype)
        inputs = [x.requires_grad_(), *narrow.parameters(), *norm.parameters()]
        if compiled and passes(x) is sweeps_cpu:
            result = transform(x.flatten(0, 1), narrow, norm).view_as(x)
        else:
            result = norm(nn.functional.gelu(narrow(x)))
    elif name == "depthwise":
        return [part.double() for part in _example_depthwise(x.detach(), y.detach(), compiled)]
    else:
        return [
            value.double()
            for value in _example_loss(x.detach().flatten(0, 1), y.detach()[0, 0], compiled)
        ]
    result.backward(upstream)
    return [
        value.detach().double()
        for value in (result, *(part.grad for part in inputs if part.grad is not None))
    ]


def _example_linear(width: int, place: int) -> nn.Linear:
    # draws nothing from torch's generator
    linear = nn.utils.skip_init(nn.Linear, width, width, device=torch.get_default_device())
    with torch.no_grad():
        linear.weight.copy_(
            normal(place, torch.arange(width * width)).view(width, width).bfloat16() / 16
        )
        linear.bias.copy_(normal(-place, torch.arange(width)).bfloat16())
    return linear


def _example_depthwise(x: Tensor, grad: Tensor, compiled: bool) -> list[Tensor]:
    """The gradient of five weights of each channel, and on CUDA the sums that they weigh."""
    n, padded = x.shape[1], nn.functional.pad(x, (0, 0, 2, 2))
    shifted = [padded[:, r : r + n] for r in range(5)]
    weight = grad[0, :5].t()
    on_gpu = passes(x) is not sweeps_cpu
    if compiled:
        results = [passes(x).grad_taps(x, grad, 5)]
        if on_gpu:
            results.append(passes(x).taps(x, weight, grad[1, 0]))
        return results
    results = [torch.stack([(part * grad).sum((0, 1)) for part in shifted], 1)]
    if on_gpu:
        results.append(sum(part * weight[:, r] for r, part in enumerate(shifted)) + grad[1, 0])
    return results


def _example_loss(logits: Tensor, bias: Tensor, compiled: bool) -> list[Tensor]:
    """The losses of the rows, then softmax − one-hot."""
    target = torch.arange(len(logits)) % len(bias)
    if compiled:
        if passes(logits) is sweeps_cpu:
            return [cross_entropy_(logits, bias, target)[0], logits]
        logits = logits + bias
        return [cross_entropy_(logits, None, target)[0], logits]
    logits = logits + bias
    one_hot = nn.functional.one_hot(target, logits.shape[1])
    return [
        nn.functional.cross_entropy(
            logits.float() if logits.dtype == torch.bfloat16 else logits,
            target,
            reduction="none",
        ),
        logits.softmax(1) - one_hot,
    ]


def add_norm(
    x: Float[Tensor, "*batch hidden"],
    y: Float[Tensor, "*batch hidden"],
    norm: nn.LayerNorm,
    draw: Draw,
    *beside: Tensor,
) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch hidden"]]:
    """LN(x + drop(y)); on CUDA LN(x + drop(y + b)), where b (hidden,), the bias of the linear map
    before, is given besides: its gradient is summed on the way.

    It is returned twice, for the next sum and for what is computed beside it: on CUDA the backward
    pass adds both gradients.
    """
    return _SweptAddNorm.apply(
        x.to(y.dtype),
        y,
        norm.weight,
        norm.bias,
        norm.eps,
        draw,
        *beside,
    )


class _Linear(torch.autograd.Function):
    @staticmethod
    @as_given
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    @as_given
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        x, weight = ctx.saved_tensors
        rows = grad.flatten(0, -2)
        return (
            grad @ weight,
            rows.t() @ x.flatten(0, -2),
            passes(grad).sum_rows(rows[None], rows.dtype)[0],
        )


def linear(
    x: Float[Tensor, "*batch hidden"],
    part: nn.Linear,
    name: str,
    training: bool,
) -> Float[Tensor, "*batch width"]:
    """The linear map `part` of x; on CUDA the gradient of its bias is a single pass, too. `name`
    and `training` as for `serve`."""
    if x.device.type == "cpu" or part.bias is None or not serve(name, x, training):
        y: Tensor = part(x)
        return y
    dtype = compute_dtype(x)
    y = _Linear.apply(x.to(dtype), cast_once(part.weight, dtype), cast_once(part.bias, dtype))
    return y


class _FeedForward(torch.autograd.Function):
    """Keeps W_1 x, and the activation where that is read faster than it is computed again."""

    @staticmethod
    @as_given
    def forward(
        ctx: Any,
        x: Tensor,
        widen: Tensor,
        inner: Tensor,
        narrow: Tensor,
        outer: Tensor | None,
    ) -> Tensor:
        rows, kernels = x.flatten(0, -2), passes(x)
        wide = rows @ widen.t()
        inner = inner.float()
        active = kernels.gelu_forward(wide, inner)
        kept = None
        if kernels.KEEPS_ACTIVATION:
            kept = active
        ctx.save_for_backward(rows, wide, widen, inner, narrow, kept)
        if outer is None:
            y = active @ narrow.t()
        else:
            y = torch.addmm(outer, active, narrow.t())
        ctx.outer = outer is not None
        return y.view(*x.shape[:-1], len(narrow))

    @staticmethod
    @once_differentiable
    @as_given
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, wide, widen, inner, narrow, active = ctx.saved_tensors
        shape, grad = grad.shape, grad.flatten(0, -2)
        kernels = passes(grad)
        of_wide, active, sums = kernels.gelu_backward(wide, inner, grad @ narrow, active)
        of_x = (of_wide @ widen).view(*shape[:-1], widen.shape[1])
        of_outer = None
        if ctx.outer:
            of_outer = kernels.sum_rows(grad[None], grad.dtype)[0]
        return (
            of_x,
            of_wide.t() @ rows,
            kernels.sum_rows(sums[None])[0],
            grad.t() @ active,
            of_outer,
        )


def feed_forward(
    x: Float[Tensor, "*batch hidden"],
    widen: nn.Linear,
    narrow: nn.Linear,
    biased: bool = True,
) -> Float[Tensor, "*batch hidden"]:
    """W_2 GELU(W_1 x + b_1) + b_2, with the exact GELU; without b_2 where it is not `biased`."""
    outer = narrow.bias.to(x.dtype) if biased else None
    y: Tensor = _FeedForward.apply(
        x,
        cast_once(widen.weight, x.dtype),
        widen.bias,
        cast_once(narrow.weight, x.dtype),
        outer,
    )
    return y


class _Transform(torch.autograd.Function):
    """On a CPU alone. Keeps W x and the activation."""

    @staticmethod
    @as_given
    def forward(
        ctx: Any,
        x: Tensor,
        matrix: Tensor,
        eps: float,
        weight: Tensor,
        *given: Tensor,
    ) -> Tensor:
        shift, gain, bias = (part.detach().float() for part in given)
        wide = sweeps_cpu.product(x, matrix, (False, True))
        active = sweeps_cpu.gelu_forward(wide, shift)
        y, mean, rstd = torch.native_layer_norm(active, gain.shape, gain, bias, eps)
        ctx.save_for_backward(
            x,
            matrix,
            wide,
            active,
            mean,
            rstd,
            shift,
            gain,
            bias,
        )
        ctx.types = [part.dtype for part in (weight, *given)]
        return y

    @staticmethod
    @once_differentiable
    @as_given
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, matrix, wide, active, mean, rstd, shift, gain, bias = ctx.saved_tensors
        of_active, of_gain, of_bias = torch.ops.aten.native_layer_norm_backward(
            grad.contiguous(),
            active,
            gain.shape,
            mean,
            rstd,
            gain,
            bias,
            [True, True, True],
        )
        of_wide, _, sums = sweeps_cpu.gelu_backward(wide, shift, of_active, None)
        of_factors = (
            sweeps_cpu.product(of_wide, x, (True, False), narrow=False),
            sums.sum(0),
            of_gain,
            of_bias,
        )
        grads = (part.to(dtype) for part, dtype in zip(of_factors, ctx.types, strict=True))
        return sweeps_cpu.product(of_wide, matrix), None, None, *grads


def transform(
    x: Float[Tensor, "tokens hidden"],
    narrow: nn.Linear,
    norm: nn.LayerNorm,
) -> Float[Tensor, "tokens embedding"]:
    """LN(GELU(W x + b)) of few tokens on a CPU."""
    x = x.to(compute_dtype(x))
    matrix = rounded(narrow.weight, x.dtype)
    y: Tensor = _Transform.apply(
        x,
        matrix,
        norm.eps,
        narrow.weight,
        narrow.bias,
        norm.weight,
        norm.bias,
    )
    return y


def logits(
    x: Float[Tensor, "tokens embedding"],
    words: Float[Tensor, "vocabulary embedding"],
    bias: Float[Tensor, "vocabulary"],
) -> tuple[Tensor, Tensor, Tensor | None]:
    """x wordsᵀ, the table that was multiplied with, and the bias that is still to be added.

    On CUDA the product adds it, and has a multiple of 64 columns, with which products of bfloat16
    are twice as fast: the others are −∞.
    """
    if x.device.type == "cpu":
        table = rounded(words, x.dtype)
        return sweeps_cpu.product(x, table, (False, True)), table, bias
    table = words.to(x.dtype)
    spare = -len(words) % 64
    table = nn.functional.pad(table, (0, 0, 0, spare))
    return (
        torch.addmm(
            nn.functional.pad(bias, (0, spare), value=-torch.inf).to(x.dtype),
            x,
            table.t(),
        ),
        table,
        None,
    )


def grad_logits(
    grad: Float[Tensor, "tokens columns"],
    x: Float[Tensor, "tokens embedding"],
) -> tuple[Float[Tensor, "columns embedding"], Float[Tensor, "columns"]]:
    """gradᵀ x and the sums of grad's columns, for CUDA: one product reads `grad` for both.

    Beside x stand columns of ones; there are eight because products of bfloat16 are fast at
    multiples of that.
    """
    both = grad.t() @ nn.functional.pad(x, (0, 8), value=1.0)
    return both[:, :-8], both[:, -8]


def grad_logits_cpu(
    grad: Float[Tensor, "tokens columns"],
    x: Float[Tensor, "tokens embedding"],
    table: Float[Tensor, "columns embedding"],
) -> tuple[Tensor, Float[Tensor, "columns embedding"], Float[Tensor, "columns"]]:
    """grad table, gradᵀ x and the sums of grad's columns, the latter two in float32."""
    of_table = sweeps_cpu.product(grad, x.contiguous(), (True, False), narrow=False)
    return sweeps_cpu.product(grad, table), of_table, sweeps_cpu.sum_rows(grad[None])[0]


def cross_entropy_(
    logits: Tensor, bias: Tensor | None, target: Tensor, counts: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Turns logits (rows, V) into softmax − one-hot.

    Args:
        bias: what is still to be added to them; None, on CUDA: nothing.
        counts: (rows,) by how much each row counts, in the results and in what is left in `logits`;
            None: all by 1.

    Returns:
        (rows,) −log softmax of the targets, and (rows,) 1 where no other logit is higher than that
        of the target.
    """
    counts = None if counts is None else counts.float().contiguous()
    bias = None if bias is None else bias.float()
    losses, hits = passes(logits).cross_entropy_(
        logits,
        bias,
        target.to(torch.int64).contiguous(),
        counts,
    )
    return losses, hits
