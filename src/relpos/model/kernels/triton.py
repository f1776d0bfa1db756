"""Fused attention with position terms for CUDA, in Triton: no tensor of scores in memory, no
atomics, the same bits each time.

Forward, a program for each block of queries of each head walks over the keys with a running
softmax:

    s_ij = q_i·k_j + β_{j−i} + a_{i, j−i} + b_{j, i−j} + D_ij       m_i = max_j s_ij      l_i = Σ_j exp(s_ij − m_i)
    y_i  = Σ_j r_ij exp(s_ij − m_i) v_j / l_i + Σ_c w_ic u_c        r_ij = 0 or the rescaling of dropout

Terms are read where they act: β by its diagonal, a and b from their 2k+1 columns, D tile by tile.
Dropout is computed from the words of `relpos.model.dropout`, in the backward pass once more. Only m
and l (B, H, n) are kept. A value table needs w, the probabilities summed by offset (B, H, n, 2k+1),
which a second walk stores; the rest is a matrix product.

Backward, with g the gradient of y and p_ij = exp(s_ij − m_i) / l_i:

    ds_ij = p_ij (r_ij (g_i·v_j + g_i·u_{j−i}) − g_i·y_i)

    blocks of queries   dq_i = Σ_j ds_ij k_j     da_{i,o} = ds_{i, i+o}     g_i·y_i
    blocks of keys      dk_j = Σ_i ds_ij q_i     dv_j = Σ_i r_ij p_ij g_i   db_{j,o} = ds_{j+o, j}
    tiles               dD_ij = Σ_examples ds_ij

On its band an entry of da and db is one ds, which is stored at an address of its own; clamped, the
outermost columns are sums of a row or a column beyond the window, which the walk collects. dβ_o =
Σ_i ds_{i, i+o}: each tile of `backward_columns` is summed along its diagonals and writes 2 ·
columns sums, which are then added in a fixed order. So no sum depends on which program is first.
Where one tile holds all keys of a sequence (n ≤ 128) the walk over blocks of keys makes dq, too,
and all terms are read as one, and their gradients made of the stored ds, by `triton_terms.py`; the
tokens of all sequences may then be one row (`packs`). No tile of padding alone is computed. A
number for each query or key is loaded along one axis (`load_each`): with two, a thread would load
it once for each of its keys, or queries.

Storage is in the number format of q, k, v; sums are in float32, and so is everything in Triton's
interpreter, which multiplies bfloat16 as if it were integers. Nothing is tuned when it is imported
or first used: the tiles follow from n and D. `test_triton_programs` compiles the programs for an
NVIDIA GPU of compute capability 9.0, which needs none.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from relpos.model.dropout import Draw, axis_words, rescale, threshold, unmixed
from relpos.model.position.base import Terms
from relpos.model.precision import as_given, compute_dtype
from relpos.model.shape import Heads, Masks, mapped
from relpos.model.tokens import Tokens

WIDEST_HEAD = 128
SHORT = 64
"""Tokens of sequences for which a launch of their own is worth it where rows have more, twice as
many at most."""


def strides(x: Tensor | None) -> tuple[int, int, int]:
    """By example, head and token, of (B, H, n, …). The first is 0 where B is 1, so that all
    sequences may be one row."""
    return (0, 0, 0) if x is None else (0 if len(x) == 1 else x.stride(0), x.stride(1), x.stride(2))


class Tiles(NamedTuple):
    """Queries and keys of a tile, the warps of a program that holds one, and the tiles that it
    loads ahead."""

    rows: int
    columns: int
    warps: int = 4
    stages: int = 2


def serves(x: Tensor, training: bool) -> bool:
    """Whether programs work on tensors like x: on CUDA in float32 and bfloat16, where Triton is
    installed."""
    served = (
        x.device.type == "cuda"
        and compute_dtype(x) in (torch.float32, torch.bfloat16)
        and not torch.compiler.is_compiling()
    )
    return served and find_spec("triton") is not None


def supports(terms: Terms, v: Heads, training: bool) -> bool:
    """All terms but columns and reach; not for heads wider than a tile."""
    return (
        terms.columns is None
        and terms.reach is None
        and v.shape[-1] <= WIDEST_HEAD
        and serves(v, training)
    )


def packs(x: Tensor, n: int) -> bool:
    """Whether q, k and v made of x, of sequences of n tokens at most, may be one row; they have no
    value table then."""
    return serves(x, True) and _whole(n, compute_dtype(x).itemsize)


def _tiles(n: int, size: int, backward: bool) -> Tiles:
    """For n tokens and numbers of so many bytes.

    Products of float32 are unrolled into single instructions, which takes the compiler minutes for
    large tiles. Those of bfloat16 are the largest that spill little: of 64 queries beside 128 keys
    a backward pass for capability 9.0 spills, of 32 it does not.
    """
    power = max(16, 1 << (n - 1).bit_length())
    if size == 4:
        return Tiles(min(32, power), min(32, power))
    if backward and 64 < n <= 128:
        return Tiles(32, 128, 8)
    return Tiles(min(64, power), min(64, power))


class _Problem:
    """What every program is told: the tensors that make the scores, their strides and the constants
    it is compiled for. `added` is an `Added`, of a module that imports Triton."""

    def __init__(
        self, content: bool, q: Tensor, k: Tensor, v: Tensor, added: Any, value: Tensor | None, mask: Tensor | None, draw: Draw,
        scale: float, held: Tokens, backward: bool,
    ) -> None:  # fmt: skip
        import triton.language as tl

        (_, heads, _, width), batch, n = v.shape, held.batch, held.n
        self.size = v.element_size()
        self.tiles = tiles = _tiles(n, self.size, backward)
        self.row_tiles, self.column_tiles, self.rows = (
            -(-n // tiles.rows),
            -(-n // tiles.columns),
            batch * heads,
        )
        dropout: list[Any] = [None, None, None, 0]
        if draw.rate > 0:
            tokens, columns = unmixed(
                torch.Size((batch, n, n)),
                draw._replace(tokens=None),
                v.device,
            )
            dropout = [tokens, axis_words(heads, v.device), columns, draw.key]
        [real] = mapped(lambda x: x.contiguous().view(torch.uint8), mask)
        self.starts: Tensor = v
        if held.starts is not None:
            self.starts = held.starts
        self.tensors = [q, k, v, *added.tensors(), real, *dropout]
        for place, x in enumerate(self.tensors):
            if x is None:
                self.tensors[place] = v
        self.numbers = (
            *chain.from_iterable(map(strides, (q, k, v))),
            *added.numbers(),
            float(scale),
            heads,
            n,
        )
        interpreted = os.getenv("TRITON_INTERPRET") == "1"
        self.constants: dict[str, Any] = {
            "D": width, "PADDED": max(16, 1 << (width - 1).bit_length()), "ROWS": tiles.rows, "COLUMNS": tiles.columns,
            "ALL": 1 << (n - 1).bit_length(), "CONTENT": content,
            **added.constants(), "HAS_MASK": mask is not None, "VALUE": 0 if value is None else len(value),
            "THRESHOLD": threshold(draw.rate), "RESCALE": rescale(draw.rate),
            "KEYED": isinstance(draw.key, Tensor) and draw.rate > 0,
            "DOT": tl.bfloat16 if v.dtype == torch.bfloat16 and not interpreted else tl.float32, "num_warps": tiles.warps,
            "num_stages": tiles.stages,
        }  # fmt: skip

    def by_length(self) -> list[dict[str, int]]:
        """The launches of `backward_columns`, each for sequences of more than FEWER tokens, and
        MOST at most: those that end in the first half of a tile of all keys have tiles of their
        own, as rows of so many tokens have."""
        all_keys = self.constants["ALL"]
        half = self.tiles.columns // 2
        if not self.constants["HAS_MASK"] or all_keys > self.tiles.columns or half < SHORT:
            return [{"FEWER": 0, "MOST": all_keys}]
        rows, columns, warps, stages = _tiles(half, self.size, backward=True)
        short = {"ROWS": rows, "COLUMNS": columns, "num_warps": warps, "num_stages": stages}
        return [{"FEWER": 0, "MOST": half, **short}, {"FEWER": half, "MOST": all_keys}]

    def launch(
        self,
        program: Any,
        grid: tuple[int, ...],
        *others: Tensor,
        numbers: tuple[int, ...] = (),
        **constants: Any,
    ) -> None:
        program[grid](
            *self.tensors,
            *others,
            *self.numbers,
            *numbers,
            **(self.constants | constants),
        )


class _TritonAttention(torch.autograd.Function):
    """With a table, query and key are what it is multiplied with; None: q and k themselves."""

    @staticmethod
    @as_given
    def forward(
        ctx: Any, content: bool, q: Tensor, k: Tensor, v: Tensor, offset: Tensor | None, query: Tensor | None, key: Tensor | None,
        dense: Tensor | None, value: Tensor | None, query_table: Tensor | None, key_table: Tensor | None, bias: Tensor | None,
        mask: Tensor | None, outside: str, draw: Draw, scale: float, held: Tokens,
    ) -> Tensor:  # fmt: skip
        from relpos.model.kernels import triton_programs as programs
        from relpos.model.kernels.triton_terms import Added, Windows

        windows = []
        for x, own, table, beside, clamped in (
            (query, q, query_table, bias, outside == "clamp"),
            (key, k, key_table, None, False),
        ):
            window = None
            if x is not None or table is not None:
                window = Windows(own if x is None else x, table, beside, clamped)
            windows.append(window)
        added = Added(offset, windows[0], windows[1], dense, outside)
        read = added
        if _whole(held.n, v.element_size()):
            read = added.summed(v, mask, held)
        problem = _Problem(
            content,
            q,
            k,
            v,
            read,
            value,
            mask,
            draw,
            scale,
            held,
            backward=False,
        )
        y = torch.empty_like(v.transpose(1, 2), memory_format=torch.contiguous_format)
        heads = v.shape[1]
        top, total = (
            torch.empty(held.batch, heads, held.n, dtype=torch.float32, device=v.device)
            for _ in range(2)
        )
        grid = problem.rows, problem.row_tiles
        problem.launch(
            programs.forward,
            grid,
            problem.starts,
            y,
            top,
            total,
            PACKED=held.starts is not None,
        )
        band = None
        if value is not None:
            band = torch.zeros(
                held.batch,
                heads,
                held.n,
                len(value),
                dtype=torch.float32,
                device=v.device,
            )
            problem.launch(programs.value_band, grid, top, total, band)
            y = (y + (band @ value.float()).transpose(1, 2)).to(y.dtype)
        ctx.save_for_backward(
            q,
            k,
            v,
            read.dense,
            value,
            mask,
            y,
            top,
            total,
            band,
        )
        ctx.rest, ctx.added, ctx.read = (
            (content, draw, scale, held),
            added,
            read._replace(dense=None),
        )
        ctx.own = [
            table is not None and x is None for x, table in ((query, query_table), (key, key_table))
        ]
        return y.transpose(1, 2)

    @staticmethod
    @once_differentiable
    @as_given
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from relpos.model.kernels import triton_programs as programs

        q, k, v, dense, value, mask, y, top, total, band = ctx.saved_tensors
        (content, draw, scale, held), added, read = (
            ctx.rest,
            ctx.added,
            ctx.read._replace(dense=dense),
        )
        (_, heads, tokens, width), batch, n = v.shape, held.batch, held.n
        whole = _whole(n, v.element_size())
        problem = _Problem(
            content,
            q,
            k,
            v,
            read,
            value,
            mask,
            draw,
            scale,
            held,
            backward=True,
        )
        grad = grad.transpose(1, 2).contiguous()  # (B, n, H, D), as y
        # Side by side as q, k and v are behind one linear map, so that the gradient of its output
        # is there already.
        grads = v.new_empty(len(v), tokens, 3 if content else 1, heads, width).unbind(2)
        grad_q, grad_k, grad_v = grads if content else grads * 3
        grad_value, of_value = None, grad
        if value is not None:
            of_value = grad.transpose(1, 2).float() @ value.float().t()  # (B, H, n, 2k+1): g_i·u_c
            grad_value = torch.einsum("bhnc,bnhd->cd", band, grad.float()).to(value.dtype)
        delta = torch.empty_like(top)
        row_values = (top, total, delta, grad, of_value)
        by = strides(grad_v.transpose(1, 2))
        by_tile = grad_query = grad_key = ds = top  # of no meaning where there is no such term
        if whole:
            if read.dense is not None:
                ds = v.new_empty(batch, heads, n, n)
        else:
            rows = problem.row_tiles
            columns = problem.column_tiles
            if added.offset is not None:  # tiles of padding alone are not written
                made_of = torch.empty if mask is None else torch.zeros
                by_tile = made_of(
                    batch,
                    heads,
                    rows,
                    columns,
                    2 * problem.tiles.columns,
                    dtype=torch.float32,
                    device=v.device,
                )
            if added.query is not None:
                grad_query = torch.zeros_like(added.query.kernels)
            if added.key is not None:
                grad_key = torch.zeros_like(added.key.kernels)
            problem.launch(
                programs.backward_rows,
                (problem.rows, rows),
                y,
                *row_values,
                grad_q,
                grad_query,
                numbers=by,
            )
        grads = grad_q, grad_k, grad_v, by_tile, grad_query, grad_key, ds
        grid = problem.rows, problem.column_tiles
        for lengths in problem.by_length():
            problem.launch(
                programs.backward_columns, grid, problem.starts, *row_values, *grads, numbers=by, WHOLE=whole,
                KEEP=read.dense is not None, PACKED=held.starts is not None, **lengths,
            )  # fmt: skip
        if whole:
            of_offset, of_query, of_key, of_dense = added.collected(ds, held)
        else:
            [of_offset] = mapped(
                lambda x: _joined(by_tile.sum(0), n, problem.tiles).to(x.dtype),
                added.offset,
            )
            [of_dense] = mapped(lambda x: _grad_dense(problem, row_values, x), added.dense)
            of_query, of_key = grad_query, grad_key
        of_q, of_k, of_v = (x.transpose(1, 2) for x in (grad_q, grad_k, grad_v))
        windows: list[tuple[Tensor | None, ...]] = []
        for x, of_terms, onto, own in zip(
            (added.query, added.key),
            (of_query, of_key),
            (of_q, of_k),
            ctx.own,
            strict=True,
        ):
            of_window: tuple[Tensor | None, ...] = (None, None, None)
            if x is not None:
                of_window = x.grads(of_terms, onto if own else None)
            windows.append(of_window)
        (of_query, of_query_table, of_bias), (of_key, of_key_table, _) = windows
        return (
            None, *((of_q, of_k) if content else (None, None)), of_v, of_offset, of_query, of_key, of_dense, grad_value,
            of_query_table, of_key_table, of_bias, None, None, None, None, None,
        )  # fmt: skip


def _whole(n: int, size: int) -> bool:
    """Whether one tile of the backward pass holds all keys."""
    return n <= _tiles(n, size, backward=True).columns


def _grad_dense(problem: _Problem, row_values: tuple[Tensor, ...], dense: Tensor) -> Tensor:
    from relpos.model.kernels import triton_programs as programs

    grad = torch.empty(dense.shape, dtype=torch.float32, device=dense.device)
    examples = problem.rows // dense.shape[1] // len(dense)
    heads = dense.shape[1]
    grid = len(dense) * heads, problem.row_tiles, problem.column_tiles
    problem.launch(programs.backward_dense, grid, *row_values, grad, numbers=(examples,))
    return grad.to(dense.dtype)


def _joined(by_tile: Tensor, n: int, tiles: Tiles) -> Tensor:
    """(H, row tiles, column tiles, 2 · columns) sums along the diagonals of each tile → (H, 2n−1)
    of the whole matrix."""
    from relpos.model.kernels import triton_programs as programs

    heads, rows, columns, _ = by_tile.shape
    total, block = by_tile.new_empty(heads, 2 * n - 1), 128
    grid = heads, -(-(2 * n - 1) // block)
    programs.join_diagonals[grid](
        by_tile,
        total,
        n,
        rows,
        columns,
        ROWS=tiles.rows,
        COLUMNS=tiles.columns,
        BLOCK=block,
    )
    return total


def attention(
    q: Heads | None, k: Heads | None, v: Heads, terms: Terms, mask: Masks | None, dropout: Draw | tuple[float, int],
    scale: float = 1.0, held: Tokens | None = None,
) -> Heads:  # fmt: skip
    """y; q not scaled. With `held`, see `packs`, all of q, k, v, y and the kernels in the terms are
    (1, H, T, …), and where the tokens of a sequence begin is told by `held.starts`."""
    draw = Draw(*dropout)
    dtype = compute_dtype(v)
    if terms.query_bias is not None and (terms.query_table is None or terms.query_table.dim() != 2):
        terms = terms.multiplied()
    # Tables that all heads share and that are narrow, (rank, width), are multiplied inside.
    windows: list[tuple[Tensor | None, Tensor | None]] = []
    for x, own, table in ((terms.query, q, terms.query_table), (terms.key, k, terms.key_table)):
        if x is not None and table is not None and table.dim() != 2:
            x, table = x @ table, None
        elif table is not None and x is own:
            x = None
        windows.append((x, table))
    v = _rows(v.to(dtype))
    content = q is not None and k is not None
    queries, keys = mapped(lambda x: _rows(x.to(dtype)), q, k)
    if queries is None:
        queries = v
    if keys is None:
        keys = v
    for place, (x, table) in enumerate(windows):
        if x is not None and table is not None:
            windows[place] = x.to(dtype), table
        elif x is not None:
            windows[place] = x.contiguous(), table
    (query, query_table), (key, key_table) = windows
    offset, dense, value = mapped(Tensor.contiguous, terms.offset, terms.dense, terms.value)
    y: Heads = _TritonAttention.apply(
        content, queries, keys, v, offset, query, key, dense, value, query_table, key_table, terms.query_bias, mask, terms.outside,
        draw, scale, held or Tokens(v.shape[0], v.shape[2]),
    )  # fmt: skip
    return y


def _rows(x: Tensor) -> Tensor:
    """x with the elements of a row side by side."""
    if x.stride(-1) == 1:
        return x
    return x.contiguous()
