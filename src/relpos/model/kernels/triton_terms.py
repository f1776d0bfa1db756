"""What `triton.py` makes of a layer's terms before its programs read them, and of what they write.

Kernels of queries or keys that are products with a table are multiplied for all heads at once, with
a matrix that holds the table once for each head. Where one tile holds all keys of a sequence, all
terms are added up to one tensor (1 or B, H, n, n) beforehand, and their gradients collected from
that of the scores afterwards: 33 MB for 256 sequences of 128 tokens and 4 heads, which a GPU moves
in less time than its attention program would take to find each term in its place. Windows alone,
which are constant beyond their band, are added up at the keys near each query: 8 MB for 17 columns.
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
from relpos.model.kernels.triton_tiles import (
    BLOCK,
    edge_sums,
    first_near,
    last_real,
    scores,
    tokens_of,
)
from relpos.model.shape import mapped
from relpos.model.tokens import Tokens

ALIGNED = 8
"""Kernels made here have a multiple of so many columns: products of bfloat16 want rows that begin
at 16 bytes."""
TILE = 2048
"""Scores that a program holds."""


@triton.jit
def spread_terms(
    OFFSETS, QUERIES, KEYS, DENSE, REAL, STARTS, OUT, ab, ah, an, bb, bh, bn, dense_b, H, n,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, ALL: tl.constexpr, HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr,
    HAS_DENSE: tl.constexpr, HAS_MASK: tl.constexpr, CLAMP: tl.constexpr, LEVEL: tl.constexpr, NEAR: tl.constexpr,
    PACKED: tl.constexpr,
):  # fmt: skip
    """All that is added to some rows of scores, (B, H, n, n), or (B, H, n, NEAR), see `Added`.
    Nothing is written behind the block of keys with the last real token."""
    row = tl.program_id(0).to(tl.int64)
    b, h = row // H, row % H
    last = last_real(REAL + b * n, n, HAS_MASK, ALL)
    if tl.program_id(1) * ROWS >= last:
        return
    if PACKED:
        first, _, last = tokens_of(STARTS, b, n, last, PACKED)
        QUERIES = QUERIES + first * an
        KEYS = KEYS + first * bn
    i, column = (
        (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None],
        tl.arange(0, COLUMNS)[None, :],
    )
    j, width = column, n
    if NEAR > 0:
        j, width = first_near(i, QUERY, KEY) + column, NEAR
    # A key before the first is one behind the last, for which nothing is read; each tile has keys
    # of the band.
    added = scores(
        tl.zeros([ROWS, COLUMNS], tl.float32), i, tl.where(j < 0, n, j), tl.program_id(1) * ROWS, tl.program_id(1) * ROWS,
        b, h, n, last, REAL, OFFSETS, QUERIES, KEYS, DENSE, ab, ah, an, bb, bh, bn, dense_b,
        HAS_OFFSET, QUERY, KEY, HAS_DENSE, False, CLAMP, LEVEL, 0,
    )  # fmt: skip
    inside = (i < last) & (j >= 0) & (j < tl.cdiv(last, BLOCK) * BLOCK) & (column < width)
    tl.store(
        OUT + row * n * width + i * width + column,
        added.to(OUT.dtype.element_ty),
        mask=inside,
    )


@triton.jit
def head_by_head(
    TABLE, BIAS, OUT, by_row, by_column, H, inner, width, padded,
    BIASED: tl.constexpr, LEVEL: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """A row of (H · inner + 1, H · padded): a table (inner, width) once for each head on the
    diagonal and zeros elsewhere, in the last row a bias (H, width). To LEVEL its other columns less
    the first."""
    FIRST: tl.constexpr = 1 if LEVEL else 0
    row = tl.program_id(0) + tl.zeros([WIDE], tl.int32)
    place = tl.arange(0, WIDE)
    h = place // padded
    column = place % padded + FIRST
    inside = (h < H) & (column < width)
    in_table = inside & (h == row // inner)
    in_bias = inside & (row == H * inner)
    table = TABLE + row % inner * by_row
    bias = BIAS + h * width
    value = tl.load(table + column * by_column, mask=in_table, other=0.0).to(tl.float32)
    if BIASED:
        value += tl.load(bias + column, mask=in_bias, other=0.0).to(tl.float32)
    if LEVEL:
        value -= tl.load(table, mask=in_table, other=0.0).to(tl.float32)
        if BIASED:
            value -= tl.load(bias, mask=in_bias, other=0.0).to(tl.float32)
    tl.store(OUT + row * H * padded + place, value.to(OUT.dtype.element_ty), mask=h < H)


@triton.jit
def of_heads(
    PRODUCTS,
    SUMS,
    OF_TABLE,
    OF_BIAS,
    H,
    inner,
    width,
    padded,
    LEVEL: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The adjoint of `head_by_head`: rows of the gradient of the table (inner, width) from that of
    all blocks (H · inner, H · padded), then those of the bias (H, width) from that of the last
    row."""
    FIRST: tl.constexpr = 1 if LEVEL else 0
    row = tl.program_id(0)
    column = tl.arange(0, WIDE)
    place = column - FIRST
    inside = (column >= FIRST) & (column < width)
    total = tl.zeros([WIDE], tl.float32)
    if row < inner:
        for h in range(0, H):
            total += tl.load(
                PRODUCTS + (h * inner + row) * H * padded + h * padded + place,
                mask=inside,
                other=0.0,
            ).to(tl.float32)
    else:
        total = tl.load(SUMS + (row - inner) * padded + place, mask=inside, other=0.0).to(
            tl.float32
        )
    if LEVEL:
        total = tl.where(column == 0, -tl.sum(total, 0), total)
    if row < inner:
        tl.store(
            OF_TABLE + row * width + column,
            total.to(OF_TABLE.dtype.element_ty),
            mask=column < width,
        )
    else:
        tl.store(
            OF_BIAS + (row - inner) * width + column,
            total.to(OF_BIAS.dtype.element_ty),
            mask=column < width,
        )


@triton.jit
def collect_windows(
    GRAD_SCORES, STARTS, OUT, ob, oh, on, of_owner, of_other, H, n, columns,
    ROWS: tl.constexpr, ALL: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, CLAMP: tl.constexpr,
    LEVEL: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """The gradient of the kernels of some queries, or keys, from that of the scores (B, H, n, n),
    in which owners and others have the strides `of_owner` and `of_other`; 0 in columns beyond
    WIDTH. At LEVEL the first column is left out."""
    K: tl.constexpr = WIDTH // 2
    row = tl.program_id(0).to(tl.int64)
    b, h = row // H, row % H
    owner = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[:, None]
    place = tl.arange(0, PADDED)[None, :]
    other = tl.arange(0, ALL)[None, :]
    column = place + (1 if LEVEL else 0)
    ds = GRAD_SCORES + row * n * n + owner * of_owner
    seen = owner + column - K
    inside = (owner < n) & (seen >= 0) & (seen < n) & (column < WIDTH)
    if CLAMP:
        inside = inside & (column > 0) & (column < WIDTH - 1)
    grad = tl.load(ds + seen * of_other, mask=inside, other=0.0).to(tl.float32)
    if CLAMP:
        wanted = (owner < n) & (other < n)
        if LEVEL:  # blocks of keys before the last column's are not read
            wanted = wanted & (other >= (owner + K) // BLOCK * BLOCK)
        whole = tl.load(ds + other * of_other, mask=wanted, other=0.0).to(tl.float32)
        low, high = edge_sums(whole, other - owner, WIDTH, 1)
        grad += tl.where(column == 0, low[:, None], 0.0) + tl.where(
            column == WIDTH - 1,
            high[:, None],
            0.0,
        )
    first, count, _ = tokens_of(STARTS, b, n, n, PACKED)
    if PACKED:
        OUT += first * on
    tl.store(
        OUT + b * ob + h * oh + owner * on + place,
        grad.to(OUT.dtype.element_ty),
        mask=(owner < count) & (place < columns),
    )


class Windows:
    """The kernels of queries, or keys: `x` (B, H, n, D) times `table` (D, width) plus `bias` (H,
    width); without a table x.

    LEVEL ones, those of queries where they are clamped, lack their first column and have the others
    less it: what is added to a whole row of scores is not seen by its softmax, and left of the
    window nothing is left to add.

    Attributes:
        width: columns with the first.
        kernels: (B, H, n, width or one less, and more if there is a table).
    """

    def __init__(
        self,
        x: Tensor,
        table: Tensor | None,
        bias: Tensor | None,
        clamped_queries: bool,
    ) -> None:
        self.batch, self.heads, self.n, self.inner = x.shape
        self.table, self.bias = table, bias
        self.width = self.inner if table is None else table.shape[1]
        self.level = clamped_queries and self.width > 1
        if table is None:
            self.kernels = x
            if self.level:
                self.kernels = x[..., 1:] - x[..., :1]
            return
        self.padded = -(-(self.width - self.level) // ALIGNED) * ALIGNED
        self.rows = in_rows(x)
        rows = self.heads * self.inner
        columns = self.heads * self.padded
        blocks = x.new_empty(rows + 1, columns)
        head_by_head[(rows + 1,)](
            table, table if bias is None else bias.contiguous(), blocks, *table.stride(), self.heads, self.inner, self.width,
            self.padded, BIASED=bias is not None, LEVEL=self.level, WIDE=triton.next_power_of_2(columns),
        )  # fmt: skip
        # the table once for each head, zeros elsewhere; the bias
        self.blocks, spaced = blocks[:-1], blocks[-1]
        if bias is None:
            kernels = self.rows @ self.blocks
        else:
            kernels = torch.addmm(spaced, self.rows, self.blocks)
        self.kernels = self._by_head(kernels)

    def _by_head(self, kernels: Tensor) -> Tensor:
        return kernels.view(self.batch, self.n, self.heads, -1).transpose(1, 2)

    def grads(
        self,
        grad: Tensor,
        onto: Tensor | None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The gradients of x, table and bias. That of x is added to `onto` (B, H, n, D) where it is
        given, and None then."""
        if self.table is None:
            if self.level:
                grad = torch.cat([-grad.sum(-1, keepdim=True), grad], -1)
            return grad, None, None
        flat = in_rows(grad)
        of_x = None
        if onto is None:
            of_x = self._by_head(flat @ self.blocks.t())
        else:
            in_rows(onto).addmm_(flat, self.blocks.t())
        products = self.rows.t() @ flat
        of_table, of_bias, sums = (
            products.new_empty(self.inner, self.width, dtype=self.table.dtype),
            None,
            products,
        )
        if self.bias is not None:
            of_bias = self.bias.new_empty(self.bias.shape)
            sums = sum_rows(flat[None])
        of_heads[(self.inner + (0 if of_bias is None else self.heads),)](
            products, sums, of_table, of_table if of_bias is None else of_bias, self.heads, self.inner, self.width, self.padded,
            LEVEL=self.level, WIDE=triton.next_power_of_2(self.width),
        )  # fmt: skip
        return of_x, of_table, of_bias


def in_rows(x: Tensor) -> Tensor:
    """(B, H, n, D) → (B · n, H · D); the same memory where tokens lie one after another."""
    return x.transpose(1, 2).flatten(2).flatten(0, 1)


class Added(NamedTuple):
    """What is added to the scores: β (H, 2n−1), a and b, D (1 or B, H, n, n). NEAR: D has all of
    it, but at so many keys of a row alone, (B, H, n, NEAR) from `first_near` on; at others a and b
    add their outermost columns."""

    offset: Tensor | None
    query: Windows | None
    key: Windows | None
    dense: Tensor | None
    outside: str
    near: int = 0

    def tensors(self) -> tuple[Tensor | None, ...]:
        """β, a, b, D as the programs read them."""
        return (
            self.offset,
            *mapped(lambda x: x.kernels, self.query, self.key),
            self.dense,
        )

    def constants(self) -> dict[str, int | bool]:
        """What the programs are compiled for."""
        query, key = mapped(lambda x: x.width, self.query, self.key)
        return {
            "HAS_OFFSET": self.offset is not None, "HAS_DENSE": self.dense is not None, "QUERY": query or 0, "KEY": key or 0,
            "CLAMP": self.outside == "clamp", "LEVEL": self.query is not None and self.query.level, "NEAR": self.near,
        }  # fmt: skip

    def numbers(self) -> tuple[int, ...]:
        """The strides of a, b and D."""
        _, query, key, dense = self.tensors()
        return (
            *strides(query),
            *strides(key),
            0 if dense is None or len(dense) == 1 else dense.stride(0),
        )

    def summed(self, like: Tensor, mask: Tensor | None, held: Tokens) -> Added:
        """The same in one tensor, in the number format of `like` (…, H, …, D); in float32 if all
        examples share it. What stands behind the last token of the `mask` (B, n) is not
        computed."""
        if all(x is None for x in self.tensors()):
            return self
        batch, n, heads = held.batch, held.n, like.shape[1]
        windows = [x.width for x in (self.query, self.key) if x is not None]
        near = 0
        # the blocks of keys in which the band of the widest may lie
        if self.offset is None and self.dense is None:
            near = triton.cdiv(max(windows) + BLOCK.value - 1, BLOCK.value) * BLOCK.value
            if near >= n:
                near = 0
        shared = not windows and (self.dense is None or len(self.dense) == 1)
        kind = like.dtype
        if shared:
            batch, kind = 1, torch.float32
        out = torch.empty(batch, heads, n, near or n, dtype=kind, device=like.device)
        every = triton.next_power_of_2(n)
        columns = triton.next_power_of_2(near or n)
        rows = max(1, min(every, TILE // columns))
        real = None
        if mask is not None and not shared:
            real = mask.contiguous().view(torch.uint8)
        spread_terms[len(out) * heads, -(-n // rows)](
            *(out if x is None else x for x in (*self.tensors(), real, held.starts)), out, *self.numbers(), heads, n, ROWS=rows,
            COLUMNS=columns, ALL=every, HAS_MASK=real is not None, PACKED=held.starts is not None,
            **(self.constants() | {"NEAR": near}),
        )  # fmt: skip
        if near:
            return Added(None, self.query, self.key, out, self.outside, near)
        return Added(None, None, None, out, self.outside)

    def collected(self, ds: Tensor, held: Tokens) -> tuple[Tensor | None, ...]:
        """The gradients of β, a, b, D from that of the scores, (B, H, n, n)."""
        [of_query] = mapped(lambda x: self._window(ds, x, False, held), self.query)
        [of_key] = mapped(lambda x: self._window(ds, x, True, held), self.key)
        shared = ds
        if self.offset is not None or (self.dense is not None and len(self.dense) == 1):
            shared = ds.sum(0, keepdim=True, dtype=torch.float32)
        [of_offset] = mapped(lambda x: diagonal_sums(shared[0]).to(x.dtype), self.offset)
        if self.dense is not None and len(self.dense) == 1:
            ds = shared
        [of_dense] = mapped(lambda x: ds.to(x.dtype), self.dense)
        return of_offset, of_query, of_key, of_dense

    def _window(self, ds: Tensor, windows: Windows, transposed: bool, held: Tokens) -> Tensor:
        out, (batch, heads, n, _) = torch.empty_like(windows.kernels), ds.shape
        columns = triton.next_power_of_2(max(n, out.shape[-1]))
        rows = max(1, min(columns, TILE // columns))
        collect_windows[batch * heads, -(-n // rows)](
            ds, ds if held.starts is None else held.starts, out, *strides(out), *((1, n) if transposed else (n, 1)),
            heads, n, out.shape[-1], ROWS=rows, ALL=triton.next_power_of_2(n), WIDTH=windows.width,
            PADDED=triton.next_power_of_2(out.shape[-1]), CLAMP=self.outside == "clamp", LEVEL=windows.level,
            PACKED=held.starts is not None,
        )  # fmt: skip
        return out
