"""Number formats: `with autocast(precision, device): …` around forward passes is the only way to
choose one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, wraps
from typing import Any, Literal, TypeVar, cast

import torch
from torch.autograd.function import once_differentiable

from relpos.model.shape import mapped
from relpos.ranges import check

Precision = Literal["fp32", "bf16"]
F = TypeVar("F", bound=Callable[..., Any])


def autocast(precision: str, device: str | torch.device) -> AbstractContextManager[object]:
    """`fp32` does nothing; `bf16` multiplies matrices in bfloat16, with float32 weights, sums and
    normalisations."""
    check("precision", precision, Precision)
    if precision == "fp32":
        return nullcontext()
    kind = torch.device(device).type
    if kind == "cpu" and not has_bf16():
        _multiply_in_float32()
    return torch.autocast(kind, dtype=torch.bfloat16)


# of the update that `casting_once` is around
_casts: dict[torch.Tensor, torch.Tensor] | None = None
_rounded: dict[torch.Tensor, torch.Tensor] | None = None  # the same without gradients


@contextmanager
def casting_once(precision: str, device: str | torch.device) -> Iterator[None]:
    """Around all forward passes of an update: each weight is cast to bfloat16 once, and not once in
    each pass.

    torch keeps casts until the outermost autocast ends, which is this one, so weights must not
    change inside. Backward passes may run inside.
    """
    global _casts, _rounded
    if precision == "fp32":
        yield
        return
    _casts, _rounded = {}, {}
    try:
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=False):
            yield
    finally:
        _casts = _rounded = None


def cast_once(weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The weight in this number format: for operations of our own, to which autocast does not hand
    its casts."""
    if _casts is None or weight.dtype == dtype:
        return weight.to(dtype)
    if weight not in _casts:
        _casts[weight] = weight.to(dtype)
    return _casts[weight]


def rounded(weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The weight in this number format, once in an update, without a gradient: for operations that
    give it to the weight itself."""
    if weight.dtype == dtype:
        return weight.detach()
    if _rounded is None:
        return weight.detach().to(dtype)
    if weight not in _rounded:
        _rounded[weight] = weight.detach().to(dtype)
    return _rounded[weight]


class _CastTogether(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.dtype = weights[0].dtype
        ctx.set_materialize_grads(False)
        return tuple(_copied(weights, dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        wide = iter(_copied([grad for grad in grads if grad is not None], ctx.dtype))
        return None, *mapped(lambda _: next(wide), *grads)


def _copied(tensors: Sequence[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    copies = [torch.empty(x.shape, dtype=dtype, device=x.device) for x in tensors]
    torch._foreach_copy_(copies, list(tensors))
    return copies


def cast_together(weights: dict[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """All weights, of one number format, in another: forward and backward a single launch on a GPU,
    and not one for each."""
    return dict(zip(weights, _CastTogether.apply(dtype, *weights.values()), strict=True))


def has_bf16() -> bool:
    """Whether oneDNN multiplies bfloat16 on this CPU, and no slower than float32."""
    from relpos.model.kernels import bf16_gain  # which need number formats themselves

    supported = torch.backends.mkldnn.is_available() and bool(
        torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
    return supported and bf16_gain() >= 1


@cache
def _multiply_in_float32() -> torch.library.Library:
    """From now on this process multiplies matrices of bfloat16 on the CPU as float32, and rounds
    the product.

    Instructions for bfloat16 also add up in float32. Without them torch's products take up to ten
    times as long as those of float32.
    """
    # returned, and so kept by `cache`: its kernels go with it
    library = torch.library.Library("aten", "IMPL")
    for name in ("mm", "bmm", "addmm", "baddbmm"):
        with warnings.catch_warnings(action="ignore"):  # of a kernel that takes another one's place
            library.impl(name, _in_float32(getattr(torch.ops.aten, name).out), "CPU")
    return library


def _in_float32(product: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The product with an `out`, which is no kernel of ours, as one without; of factors in bfloat16
    by way of float32."""

    def multiply(*factors: torch.Tensor, **scales: float) -> torch.Tensor:
        dtype = factors[-1].dtype
        if dtype != torch.bfloat16:
            return product(*factors, **scales, out=factors[-1].new_empty(0))
        wide = [factor.float() for factor in factors]
        return product(*wide, **scales, out=wide[-1].new_empty(0)).to(dtype)

    return multiply


def as_given(function: F) -> F:
    """Around `forward` and `backward` of an autograd.Function: the number formats are those of its
    arguments. CUDA's autocast gives layer norms, softmax and sums in float32, that of a CPU does
    not, and what a backward pass is handed would not fit together.
    """

    @wraps(function)
    def run(ctx: Any, *given: Any) -> Any:
        kind = next(x.device.type for x in given if isinstance(x, torch.Tensor))
        with torch.autocast(kind, enabled=False):
            return function(ctx, *given)

    return cast(F, run)


def compute_dtype(x: torch.Tensor) -> torch.dtype:
    """The number format of matrix products with x under the autocast in force."""
    # Autocast leaves products of float64 in float64.
    kind = x.device.type
    return (
        torch.get_autocast_dtype(kind)
        if torch.is_autocast_enabled(kind) and x.dtype != torch.float64
        else x.dtype
    )
