"""Fused attention with position terms for CUDA, in Triton: no tensor of scores in memory, no atomics, the same bits each time.

Forward, a program for each block of queries of each head walks over the keys with a running softmax:

    s_ij = q_i·k_j + β_{j−i} + a_{i, j−i} + b_{j, i−j} + D_ij       m_i = max_j s_ij      l_i = Σ_j exp(s_ij − m_i)
    y_i  = Σ_j r_ij exp(s_ij − m_i) v_j / l_i + Σ_c w_ic u_c        r_ij = 0 or the rescaling of dropout

Terms are read where they act: β by its diagonal, a and b from their 2k+1 columns, D tile by tile. Dropout is computed from the
words of `relpos.model.dropout`, in the backward pass once more. Only m and l (B, H, n) are kept. A value table needs w, the
probabilities summed by offset (B, H, n, 2k+1), which a second walk stores; the rest is a matrix product.

Backward, with g the gradient of y and p_ij = exp(s_ij − m_i) / l_i:

    ds_ij = p_ij (r_ij (g_i·v_j + g_i·u_{j−i}) − g_i·y_i)

    blocks of keys      dk_j = Σ_i ds_ij q_i     dv_j = Σ_i r_ij p_ij g_i     db_{j,o} = ds_{j+o, j}
    blocks of queries   dq_i = Σ_j ds_ij k_j     da_{i,o} = ds_{i, i+o}
    tiles               dD_ij = Σ_examples ds_ij

On its band an entry of da and db is one ds, which is stored at an address of its own; clamped, the outermost columns are sums of
a row or a column beyond the window, which the walk collects. dβ_o = Σ_i ds_{i, i+o}: each tile of `backward_columns` is summed
along its diagonals and writes 2 · block sums, which are added here in a fixed order. So no sum depends on which program is first.
Where a sequence fits one tile (n ≤ 64) one walk makes all of these gradients.

Storage is in the number format of q, k, v; sums are in float32, and so is everything in Triton's interpreter, which multiplies
bfloat16 as if it were integers. Nothing is tuned when it is imported or first used: the tiles follow from n and D. `test_triton`
compiles the programs for an NVIDIA GPU of compute capability 9.0, which needs none.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from relpos.model.dropout import Draw, rescale, threshold, words
from relpos.model.position.base import Terms
from relpos.model.precision import compute_dtype
from relpos.model.shape import Heads, Mask

WIDEST_HEAD = 128
WARPS = 4


def supports(terms: Terms, v: Heads, training: bool) -> bool:
    """All terms but columns and reach, on CUDA where Triton is installed; not in float64 and not for heads wider than a tile."""
    plain = terms.columns is None and terms.reach is None
    served = plain and v.device.type == "cuda" and v.shape[-1] <= WIDEST_HEAD and compute_dtype(v) != torch.float64
    return served and find_spec("triton") is not None


def _block(n: int, size: int) -> int:
    """Rows and columns of a tile, for n tokens and numbers of so many bytes.

    Compiled for capability 9.0, tiles of 128 spill 7,000 bytes a thread in the backward pass, tiles of 64 hardly any. Products of
    float32 are unrolled into single instructions, which takes the compiler minutes for large tiles.
    """
    return max(16, min(64 if size == 2 else 32, 1 << (n - 1).bit_length()))


class _Problem:
    """What every program is told: the tensors that make the scores, their strides and the constants it is compiled for."""

    def __init__(
        self, content: bool, q: Tensor, k: Tensor, v: Tensor, terms: tuple[Tensor | None, ...], mask: Tensor | None, outside: str,
        draw: Draw,
    ) -> None:  # fmt: skip
        import triton.language as tl

        batch, heads, n, width = v.shape
        offset, query, key, dense, value = terms
        padded = max(16, 1 << (width - 1).bit_length())
        self.block = _block(n, v.element_size())
        self.tiles, self.rows = -(-n // self.block), batch * heads
        dropout = words((*v.shape[:2], n, n), draw, v.device) if draw.rate > 0 else (None, None)
        real = None if mask is None else mask.contiguous().view(torch.uint8)
        self.tensors = [v if x is None else x for x in (q, k, v, offset, query, key, dense, real, *dropout)]
        dense_stride = 0 if dense is None or len(dense) == 1 else dense.stride(0)
        self.numbers = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], dense_stride, heads, n)
        interpreted = os.environ.get("TRITON_INTERPRET") == "1"
        self.constants: dict[str, Any] = {
            "D": width, "PADDED": padded, "BLOCK": self.block, "ALL": 1 << (n - 1).bit_length(), "CONTENT": content,
            "HAS_OFFSET": offset is not None, "HAS_DENSE": dense is not None, "HAS_MASK": mask is not None,
            "QUERY": 0 if query is None else query.shape[-1], "KEY": 0 if key is None else key.shape[-1],
            "VALUE": 0 if value is None else len(value), "CLAMP": outside == "clamp",
            "THRESHOLD": threshold(draw.rate) if draw.rate > 0 else 0, "RESCALE": rescale(draw.rate) if draw.rate > 0 else 1.0,
            "DOT": tl.bfloat16 if v.dtype == torch.bfloat16 and not interpreted else tl.float32, "num_warps": WARPS,
            "num_stages": 2,
        }  # fmt: skip

    def launch(self, program: Any, grid: tuple[int, ...], *others: Tensor, numbers: tuple[int, ...] = (), **constants: Any) -> None:
        program[grid](*self.tensors, *others, *self.numbers, *numbers, **self.constants, **constants)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, content: bool, q: Tensor, k: Tensor, v: Tensor, offset: Tensor | None, query: Tensor | None, key: Tensor | None,
        dense: Tensor | None, value: Tensor | None, mask: Tensor | None, outside: str, draw: Draw,
    ) -> Tensor:  # fmt: skip
        from relpos.model.kernels import triton_programs as programs

        terms = offset, query, key, dense, value
        problem = _Problem(content, q, k, v, terms, mask, outside, draw)
        batch, heads, n, width = v.shape
        y = v.new_empty(batch, n, heads, width)
        top, total = (torch.empty(batch, heads, n, dtype=torch.float32, device=v.device) for _ in range(2))
        grid = problem.rows, problem.tiles
        problem.launch(programs.forward, grid, y, top, total)
        band = None
        if value is not None:
            band = torch.zeros(batch, heads, n, len(value), dtype=torch.float32, device=v.device)
            problem.launch(programs.value_band, grid, top, total, band)
            with torch.autocast(v.device.type, enabled=False):
                y = (y + (band @ value.float()).transpose(1, 2)).to(y.dtype)
        ctx.save_for_backward(q, k, v, *terms, mask, y, top, total, band)
        ctx.rest = content, outside, draw
        return y.transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from relpos.model.kernels import triton_programs as programs

        q, k, v, offset, query, key, dense, value, mask, y, top, total, band = ctx.saved_tensors
        content, outside, draw = ctx.rest
        problem = _Problem(content, q, k, v, (offset, query, key, dense, value), mask, outside, draw)
        (batch, heads, n, _), tiles, block = v.shape, problem.tiles, problem.block
        grad = grad.transpose(1, 2).contiguous()  # (B, n, H, D), as are y and the gradients of q, k, v
        grads = [torch.empty_like(y) for _ in range(3)] if content else [y, y, torch.empty_like(y)]
        sums = torch.float32, v.device
        by_tile = _zeros(offset is not None, (batch, heads, tiles, tiles, 2 * block), sums)
        grad_query, grad_key = (_zeros(x is not None, () if x is None else x.shape, sums) for x in (query, key))
        grad_value, of_value = None, grad
        if value is not None:
            with torch.autocast(v.device.type, enabled=False):
                of_value = grad.transpose(1, 2).float() @ value.float().t()  # (B, H, n, 2k+1): g_i·u_c
                grad_value = torch.einsum("bhnc,bnhd->cd", band, grad.float()).to(value.dtype)
        known = y, top, total, grad, of_value
        whole = tiles == 1
        problem.launch(programs.backward_columns, (problem.rows, tiles), *known, *grads, by_tile, grad_query, grad_key, WHOLE=whole)
        if not whole and (content or query is not None):
            problem.launch(programs.backward_rows, (problem.rows, tiles), *known, grads[0], grad_query, WHOLE=whole)
        grad_dense = None
        if dense is not None:
            grad_dense = torch.empty(dense.shape, dtype=torch.float32, device=v.device)
            grid = len(dense) * heads, tiles, tiles
            problem.launch(programs.backward_dense, grid, *known, grad_dense, numbers=(batch // len(dense),), WHOLE=whole)
            grad_dense = grad_dense.to(dense.dtype)
        return (
            None,
            *((x.transpose(1, 2) for x in grads) if content else (None, None, grads[2].transpose(1, 2))),
            None if offset is None else _joined(by_tile.sum(0), n).to(offset.dtype),
            None if query is None else grad_query.to(query.dtype),
            None if key is None else grad_key.to(key.dtype),
            grad_dense, grad_value, None, None, None,
        )  # fmt: skip


def _zeros(wanted: bool, shape: tuple[int, ...], kind: tuple[torch.dtype, torch.device]) -> Tensor:
    """What a program adds to or leaves as it is; a number that nobody touches where it is not wanted."""
    return torch.zeros(shape if wanted else (1,), dtype=kind[0], device=kind[1])


def _joined(by_tile: Tensor, n: int) -> Tensor:
    """(H, T, T, 2·block) sums along the diagonals of each tile, offsets −block … block−1 → (H, 2n−1) of the whole matrix."""
    heads, tiles, _, width = by_tile.shape
    block = width // 2
    total = by_tile.new_zeros(heads, 2 * (tiles + 1) * block)  # offsets from −(tiles + 1) · block
    for ahead in range(1 - tiles, tiles):
        start = (ahead + tiles) * block
        total[:, start : start + width] += by_tile.diagonal(ahead, 1, 2).sum(-1)
    middle = (tiles + 1) * block
    return total[:, middle - n + 1 : middle + n]


def attention(
    q: Heads | None, k: Heads | None, v: Heads, terms: Terms, mask: Mask | None, dropout: Draw | tuple[float, int]
) -> Heads:
    """y; q scaled."""
    draw, dtype, terms = Draw(*dropout), compute_dtype(v), terms.multiplied()
    v = _rows(v.to(dtype))
    content = q is not None and k is not None
    queries, keys = (v if x is None else _rows(x.to(dtype)) for x in (q, k))
    tables = (x if x is None else x.contiguous() for x in (terms.offset, terms.query, terms.key, terms.dense, terms.value))
    return _Attention.apply(content, queries, keys, v, *tables, mask, terms.outside, draw)


def _rows(x: Tensor) -> Tensor:
    """x with the elements of a row side by side."""
    return x if x.stride(-1) == 1 else x.contiguous()
