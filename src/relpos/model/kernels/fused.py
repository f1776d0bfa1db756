"""Attention as one step of differentiation, in plain torch. Equal to `eager`, dropout masks
included, and faster on a CPU.

What makes it fast: position terms are added to the scores in place, convolution kernels only on the
band where they act; a dropped probability is stored with a minus sign, so that no mask is stored,
converted or multiplied with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from relpos.model.dropout import Draw, dropped, rescale
from relpos.model.kernels.band import (
    Kernels,
    Matrices,
    add_band_,
    beyond,
    diagonal_sums,
    read_band,
    toeplitz,
)
from relpos.model.kernels.eager import masked
from relpos.model.position.base import Terms
from relpos.model.precision import as_given, compute_dtype
from relpos.model.shape import Heads, Mask, mapped, scaled


def supports(terms: Terms, v: Heads, training: bool) -> bool:
    """Everything but a value table, and but kernels in a wider number format than the scores: they
    would be rounded to that."""
    scores = torch.finfo(compute_dtype(v)).eps
    exact = any(
        x is not None and torch.finfo(x.dtype).eps < scores for x in (terms.query, terms.key)
    )
    return terms.value is None and not exact


def _add_query_(s: Matrices, kernel: Kernels, outside: str) -> None:
    """s += the convolution kernel of each query, read at j − i.

    Clamped, the left edge is first levelled to 0 in every row, which a softmax does not see: one
    triangle is left to fill, not two.
    """
    if outside == "clamp":
        kernel = (kernel - kernel[:, :, :1]).to(s.dtype)
        s.addcmul_(kernel[:, :, -1:], beyond(s, kernel.shape[2] // 2))
    add_band_(s, kernel)


def _grad_query(s: Matrices, width: int, outside: str) -> Kernels:
    """The adjoint of `_add_query_` for a gradient s whose rows sum to 0, as those of a softmax
    do."""
    grad = read_band(s, width // 2)
    if outside == "clamp":
        grad[:, :, -1] += (s * beyond(s, width // 2)).sum(-1)
        # a row sums to 0: the left edge gets what all others leave
        grad[:, :, 0] = -grad[:, :, 1:].sum(-1)
    return grad


def _add_key_(s: Matrices, kernel: Kernels, outside: str) -> None:
    """s += the convolution kernel of each key, read at i − j: the same on the transposed matrix,
    both edges filled."""
    # An edge differs from key to key, so that no level can be taken off a query's row: both
    # triangles are filled.
    s = s.transpose(1, 2)
    k = kernel.shape[2] // 2
    kernel = kernel.to(s.dtype)
    if outside == "clamp":
        s.addcmul_(kernel[:, :, -1:], beyond(s, k))
        s.addcmul_(kernel[:, :, :1], beyond(s, k, left=True))
    add_band_(s, kernel)


def _grad_key(s: Matrices, width: int, outside: str) -> Kernels:
    """The adjoint of `_add_key_`."""
    s, k = s.transpose(1, 2), width // 2
    grad = read_band(s, k)
    if outside == "clamp":
        grad[:, :, -1] += (s * beyond(s, k)).sum(-1)
        grad[:, :, 0] += (s * beyond(s, k, left=True)).sum(-1)
    return grad


class _FusedAttention(torch.autograd.Function):
    @staticmethod
    @as_given
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, offset: Tensor | None, query: Tensor | None, key: Tensor | None,
        dense: Tensor | None, mask: Tensor | None, outside: str, draw: Draw,
    ) -> Tensor:  # fmt: skip
        batch, heads, n, width = q.shape
        p = draw.rate
        q, k, v = (x.reshape(batch * heads, n, width) for x in (q, k, v))
        s = torch.bmm(q, k.transpose(1, 2))  # (B·H, n, n)
        by_head = s.view(batch, heads, n, n)
        if offset is not None:
            by_head.add_(toeplitz(offset, n).to(s.dtype))
        if dense is not None:
            by_head.add_(dense.to(s.dtype))
        if query is not None:
            _add_query_(s, query.reshape(batch * heads, n, -1), outside)
        if key is not None:
            _add_key_(s, key.reshape(batch * heads, n, -1), outside)
        if mask is not None:
            by_head.add_(
                s.new_zeros(mask.shape).masked_fill_(~mask, masked(s.dtype))[:, None, None, :]
            )
        signed = torch.softmax(s, -1)
        if p > 0:
            # A probability needs no sign, so its sign bit can be the mask; that of an int16 is
            # where bfloat16 has its own.
            signed.copysign_(
                dropped((batch, heads, n, n), draw, s.device).view_as(s).view(torch.bfloat16)
            )
        kept = signed
        if p > 0:
            kept = signed.relu()
        ctx.save_for_backward(q, k, v, signed)
        ctx.shape, ctx.outside, ctx.p = (batch, heads, n, width), outside, p
        ctx.terms = mapped(lambda x: (x.shape, x.dtype), offset, query, key, dense)
        y = torch.bmm(kept, v)
        if p > 0:
            y.mul_(rescale(p))
        return y.view(batch, heads, n, width)

    @staticmethod
    @once_differentiable
    @as_given
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, signed = ctx.saved_tensors
        grad = grad.reshape(q.shape)
        kept = signed
        if ctx.p > 0:
            grad = grad * rescale(ctx.p)
            kept = signed.relu()
        grad_v = torch.bmm(kept.transpose(1, 2), grad)
        grad_p = torch.bmm(grad, v.transpose(1, 2))
        if ctx.p > 0:
            # 0 where `signed` is not above 0, that is where the probability was dropped.
            grad_p = torch.ops.aten.threshold_backward(grad_p, signed, 0)
            signed = signed.abs()
        s = torch._softmax_backward_data(grad_p, signed, -1, signed.dtype)
        grads = torch.bmm(s, k), torch.bmm(s.transpose(1, 2), q), grad_v
        return *(x.view(ctx.shape) for x in grads), *_term_grads(s, ctx), None, None, None


def _term_grads(s: Tensor, ctx: Any) -> list[Tensor | None]:
    """Gradients of offset, query, key, dense from that of the scores s (B·H, n, n)."""
    batch, heads, n, _ = ctx.shape
    offset, query, key, dense = ctx.terms
    by_head = s.view(batch, heads, n, n)
    grads: list[Tensor | None] = [None] * 4
    if offset is not None:
        grads[0] = diagonal_sums(by_head.sum(0, dtype=offset[1])).to(offset[1])
    if query is not None:
        grads[1] = _grad_query(s, query[0][-1], ctx.outside).view(query[0]).to(query[1])
    if key is not None:
        grads[2] = _grad_key(s, key[0][-1], ctx.outside).view(key[0]).to(key[1])
    if dense is not None:
        grads[3] = by_head.sum_to_size(dense[0]).to(dense[1])
    return grads


def _hiding(terms: Terms, v: Heads) -> Terms:
    """The same without `reach`: β hides what is farther away."""
    if terms.reach is None:
        return terms
    _, heads, n, _ = v.shape
    offset = terms.offset
    if offset is None:
        offset = v.new_zeros(heads, 2 * n - 1)
    far = torch.arange(1 - n, n, device=v.device).abs() > terms.reach
    return replace(terms, offset=offset.masked_fill(far, -torch.inf), reach=None)


def attention(
    q: Heads | None, k: Heads | None, v: Heads, terms: Terms, mask: Mask | None, dropout: Draw | tuple[float, int],
    scale: float = 1.0,
) -> Heads:  # fmt: skip
    """y; `scale` is the factor of q·k."""
    dtype = compute_dtype(v)
    terms = _hiding(terms.multiplied(), v)
    if terms.columns is not None:
        terms = replace(terms.by_offset(), outside="zero")  # nothing is outside
    # Without q·k a product of zeros stands in its place, so that one function serves both cases.
    queries = scaled(q, scale)
    if queries is None:
        queries = v.new_zeros(v.shape)
    if k is None:
        k = queries
    q, k, v = queries.to(dtype), k.to(dtype), v.to(dtype)
    return _FusedAttention.apply(
        q,
        k,
        v,
        terms.offset,
        terms.query,
        terms.key,
        terms.dense,
        mask,
        terms.outside,
        Draw(*dropout),
    )
