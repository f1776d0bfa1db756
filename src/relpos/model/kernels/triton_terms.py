"""What `triton.py` makes of a layer's terms before its programs read them, and of what they write.

Kernels of queries or keys that are products with a table are multiplied for all heads at once, with a matrix that holds the table
once for each head. Where one tile holds all keys of a sequence, all terms are added up to one tensor (1 or B, H, n, n) beforehand,
and their gradients collected from that of the scores afterwards: 33 MB for 256 sequences of 128 tokens and 4 heads, which a GPU
moves in less time than its attention program would take to find each term in its place.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from relpos.model.kernels.band import diagonal_sums
from relpos.model.kernels.triton import strides
from relpos.model.kernels.triton_sweeps import sum_rows
from relpos.model.kernels.triton_tiles import edge_sums, last_real, scores, tokens_of
from relpos.model.tokens import Tokens

ALIGNED = 8
"""Kernels made here have a multiple of so many columns: products of bfloat16 want rows that begin at 16 bytes."""
TILE = 2048
"""Scores that a program holds."""


@triton.jit
def spread_terms(
    OFFSETS, QUERIES, KEYS, DENSE, REAL, STARTS, OUT, ab, ah, an, bb, bh, bn, dense_b, H, n,
    ROWS: tl.constexpr, ALL: tl.constexpr, HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr,
    HAS_DENSE: tl.constexpr, HAS_MASK: tl.constexpr, CLAMP: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """All that is added to some rows of scores, (B, H, n, n); nothing is written behind the last real token."""
    row = tl.program_id(0).to(tl.int64)
    b, h = row // H, row % H
    last = last_real(REAL + b * n, n, HAS_MASK, ALL)
    if tl.program_id(1) * ROWS >= last:
        return
    if PACKED:
        first, _ = tokens_of(STARTS, b, n, PACKED)
        QUERIES, KEYS = QUERIES + first * an, KEYS + first * bn
    i, j = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None], tl.arange(0, ALL)[None, :]
    added, _ = scores(
        tl.zeros([ROWS, ALL], tl.float32), i, j, tl.program_id(1) * ROWS, 0,
        b, h, n, last, REAL, OFFSETS, QUERIES, KEYS, DENSE, ab, ah, an, bb, bh, bn, dense_b,
        HAS_OFFSET, QUERY, KEY, HAS_DENSE, False, CLAMP,
    )  # fmt: skip
    tl.store(OUT + row * n * n + i * n + j, added.to(OUT.dtype.element_ty), mask=(i < last) & (j < last))


@triton.jit
def head_by_head(
    TABLE, BIAS, OUT, by_row, by_column, H, inner, width, padded, BIASED: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """A row of (H · inner + 1, H · padded): a table (inner, width) once for each head on the diagonal and zeros elsewhere, in the
    last row a bias (H, width)."""
    row, column = tl.program_id(0) + tl.zeros([BLOCK], tl.int32), tl.arange(0, BLOCK)
    h, own = column // padded, column % padded
    inside = (h < H) & (own < width)
    value = tl.load(TABLE + row % inner * by_row + own * by_column, mask=inside & (h == row // inner), other=0.0).to(tl.float32)
    if BIASED:
        value += tl.load(BIAS + h * width + own, mask=inside & (row == H * inner), other=0.0).to(tl.float32)
    tl.store(OUT + row * H * padded + column, value.to(OUT.dtype.element_ty), mask=h < H)


@triton.jit
def collect_windows(
    GRAD_SCORES, STARTS, OUT, ob, oh, on, of_owner, of_other, H, n, columns,
    ROWS: tl.constexpr, ALL: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, CLAMP: tl.constexpr,
    PACKED: tl.constexpr,
):  # fmt: skip
    """The gradient of the kernels of some queries, or keys, from that of the scores (B, H, n, n), in which owners and others have
    the strides `of_owner` and `of_other`; 0 in columns beyond WIDTH."""
    K: tl.constexpr = WIDTH // 2
    row = tl.program_id(0).to(tl.int64)
    b, h = row // H, row % H
    owner = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None]
    column, other = tl.arange(0, PADDED)[None, :], tl.arange(0, ALL)[None, :]
    ds = GRAD_SCORES + row * n * n + owner * of_owner
    seen = owner + column - K
    inside = (owner < n) & (seen >= 0) & (seen < n) & (column < WIDTH)
    if CLAMP:
        inside = inside & (column > 0) & (column < WIDTH - 1)
    grad = tl.load(ds + seen * of_other, mask=inside, other=0.0).to(tl.float32)
    if CLAMP:
        whole = tl.load(ds + other * of_other, mask=(owner < n) & (other < n), other=0.0).to(tl.float32)
        low, high = edge_sums(whole, other - owner, WIDTH, 1)
        grad += tl.where(column == 0, low[:, None], 0.0) + tl.where(column == WIDTH - 1, high[:, None], 0.0)
    first, count = tokens_of(STARTS, b, n, PACKED)
    if PACKED:
        OUT += first * on
    place = OUT + b * ob + h * oh + owner * on + column
    tl.store(place, grad.to(OUT.dtype.element_ty), mask=(owner < count) & (column < columns))


class Windows:
    """The kernels of queries, or keys: `x` (B, H, n, D) times `table` (D, width) plus `bias` (H, width); without a table x."""

    def __init__(self, x: Tensor, table: Tensor | None, bias: Tensor | None) -> None:
        self.batch, self.heads, self.n, inner = x.shape
        self.table, self.biased, self.like = table, bias is not None, x
        self.width = inner if table is None else table.shape[1]
        if table is None:
            self.kernels = x
            return
        self.padded = -(-self.width // ALIGNED) * ALIGNED
        self.rows, rows, columns = in_rows(x), self.heads * inner, self.heads * self.padded
        blocks = x.new_empty(rows + 1, columns)
        head_by_head[(rows + 1,)](
            table, table if bias is None else bias.contiguous(), blocks, *table.stride(), self.heads, inner, self.width,
            self.padded, BIASED=self.biased, BLOCK=triton.next_power_of_2(columns),
        )  # fmt: skip
        self.blocks, spaced = blocks[:-1], blocks[-1]  # the table once for each head, zeros elsewhere; the bias
        made = self.rows @ self.blocks if bias is None else torch.addmm(spaced, self.rows, self.blocks)
        self.kernels = self._by_head(made)

    def _by_head(self, kernels: Tensor) -> Tensor:
        return kernels.view(self.batch, self.n, self.heads, -1).transpose(1, 2)

    def grad(self) -> Tensor:
        """Memory for the gradient of the kernels, (B, H, n, width or more)."""
        if self.table is None:
            return torch.empty_like(self.like)
        return self._by_head(self.rows.new_empty(len(self.rows), self.heads * self.padded))

    def grads(self, grad: Tensor, onto: Tensor | None) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The gradients of x, table and bias. That of x is added to `onto` (B, H, n, D) where it is given, and None then."""
        if self.table is None:
            return grad, None, None
        flat = in_rows(grad)
        of_x = None
        if onto is None:
            of_x = self._by_head(flat @ self.blocks.t())
        else:
            in_rows(onto).addmm_(flat, self.blocks.t())
        products = (self.rows.t() @ flat).view(self.heads, -1, self.heads, self.padded)
        of_table = products.diagonal(0, 0, 2)[:, : self.width].sum(-1, dtype=torch.float32)
        of_bias = sum_rows(flat[None]).view(self.heads, self.padded)[:, : self.width] if self.biased else None
        return of_x, of_table.to(self.table.dtype), of_bias


def in_rows(x: Tensor) -> Tensor:
    """(B, H, n, D) → (B · n, H · D); the same memory where tokens lie one after another."""
    return x.transpose(1, 2).flatten(2).flatten(0, 1)


class Added(NamedTuple):
    """What is added to the scores, before it is added up: β (H, 2n−1), a and b, D (1 or B, H, n, n)."""

    offset: Tensor | None
    query: Windows | None
    key: Windows | None
    dense: Tensor | None
    outside: str

    def tensors(self) -> tuple[Tensor | None, ...]:
        """β, a, b, D as the programs read them."""
        return self.offset, *(None if x is None else x.kernels[..., : x.width] for x in (self.query, self.key)), self.dense

    def summed(self, like: Tensor, mask: Tensor | None, held: Tokens) -> Tensor | None:
        """All of it in one tensor, in the number format of `like` (…, H, …, D); in float32 if all examples share it. What stands
        behind the last token of the `mask` (B, n) is not computed."""
        offset, query, key, dense = tensors = self.tensors()
        if all(x is None for x in tensors):
            return None
        batch, n, heads = held.batch, held.n, like.shape[1]
        shared = query is None and key is None and (dense is None or len(dense) == 1)
        out = torch.empty(1 if shared else batch, heads, n, n, dtype=torch.float32 if shared else like.dtype, device=like.device)
        columns = triton.next_power_of_2(n)
        rows = max(1, min(columns, TILE // columns))
        real = None if mask is None or shared else mask.contiguous().view(torch.uint8)
        spread_terms[len(out) * heads, -(-n // rows)](
            *(out if x is None else x for x in (*tensors, real, held.starts)), out, *strides(query), *strides(key),
            0 if dense is None or len(dense) == 1 else dense.stride(0), heads, n, ROWS=rows, ALL=columns,
            HAS_OFFSET=offset is not None, QUERY=0 if self.query is None else self.query.width,
            KEY=0 if self.key is None else self.key.width, HAS_DENSE=dense is not None, HAS_MASK=real is not None,
            CLAMP=self.outside == "clamp", PACKED=held.starts is not None,
        )  # fmt: skip
        return out

    def collected(self, ds: Tensor, held: Tokens) -> tuple[Tensor | None, ...]:
        """The gradients of β, a, b, D from that of the scores, (B, H, n, n)."""
        windows = [
            None if x is None else self._window(ds, x, transposed, held)
            for x, transposed in ((self.query, False), (self.key, True))
        ]
        shared = ds
        if self.offset is not None or (self.dense is not None and len(self.dense) == 1):
            shared = ds.sum(0, keepdim=True, dtype=torch.float32)
        of_offset = None if self.offset is None else diagonal_sums(shared[0]).to(self.offset.dtype)
        of_dense = None if self.dense is None else (shared if len(self.dense) == 1 else ds).to(self.dense.dtype)
        return of_offset, *windows, of_dense

    def _window(self, ds: Tensor, windows: Windows, transposed: bool, held: Tokens) -> Tensor:
        out, (batch, heads, n, _) = windows.grad(), ds.shape
        columns = triton.next_power_of_2(max(n, out.shape[-1]))
        rows = max(1, min(columns, TILE // columns))
        collect_windows[batch * heads, -(-n // rows)](
            ds, ds if held.starts is None else held.starts, out, *strides(out), *((1, n) if transposed else (n, 1)),
            heads, n, out.shape[-1], ROWS=rows, ALL=triton.next_power_of_2(n), WIDTH=windows.width,
            PADDED=triton.next_power_of_2(out.shape[-1]), CLAMP=self.outside == "clamp", PACKED=held.starts is not None,
        )  # fmt: skip
        return out
