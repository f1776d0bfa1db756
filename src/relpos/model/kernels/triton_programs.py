"""The Triton programs of attention: forward, and the walks over the scores that make all gradients.
See `triton.py`.

Queries and keys behind the last real token of a sequence are padding, for which nothing is read or
computed: outputs and gradients are 0 there. `last` is the number of the tokens before, n where
    nothing is masked.

Names of arguments: strides by example, head and token of q, k, v (`qb, qh, qn` …), of queries'
kernels (`ab …`) and of keys' (`bb …`); y and its gradient are (B, n, H, D), or (tokens, H, D),
without gaps, gradients of q, k, v have the strides `gb, gh, gn`, those of kernels the kernels' own;
`top`, `total` and `delta` are (B, H, n): the largest score of a row, Σ_j exp(s_ij − top_i), and
g_i·y_i.

PACKED, the tokens of all sequences are one row in what has no size of its own for B, `STARTS` tells
where each begins, and strides by example are 0.
"""

import triton
import triton.language as tl

from relpos.model.kernels.triton_tiles import (
    LOWEST,
    diagonal_sums,
    differentiate,
    edge_sums,
    is_near,
    last_real,
    load_rows,
    store_edges,
    store_rows,
    tile_scores,
    tokens_of,
    write_window,
)


@triton.jit
def forward(
    Q, K, V, OFFSETS, QUERIES, KEYS, DENSE, REAL, TOKEN_WORDS, HEAD_WORDS, COLUMN_WORDS, DRAWN,
    STARTS, Y, TOP, TOTAL,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, ab, ah, an, bb, bh, bn, dense_b, scale, H, n,
    D: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ALL: tl.constexpr, CONTENT: tl.constexpr,
    HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, HAS_DENSE: tl.constexpr,
    HAS_MASK: tl.constexpr, CLAMP: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr, KEYED: tl.constexpr,
    DOT: tl.constexpr, LEVEL: tl.constexpr, NEAR: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """y, top and total of one block of queries, walking over the keys with a running softmax."""
    row = tl.program_id(0).to(tl.int64)
    b, h = row // H, row % H
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    real = REAL + b * n
    last = last_real(real, n, HAS_MASK, ALL)
    first, count, last = tokens_of(STARTS, b, n, last, PACKED)
    if PACKED:
        Q, K, V = Q + first * qn, K + first * kn, V + first * vn
        QUERIES, KEYS = QUERIES + first * an, KEYS + first * bn
    q = load_rows(Q + b * qb + h * qh, i, qn, last, D, PADDED).to(DOT)
    # Finite: with −∞ a row whose first keys are all hidden by β = −∞ would have −∞ − (−∞) here.
    top = tl.full([ROWS], LOWEST, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    y = tl.zeros([ROWS, PADDED], tl.float32)
    for start in range(0, tl.where(tl.program_id(1) * ROWS < last, last, 0), COLUMNS):
        j = start + tl.arange(0, COLUMNS)
        product = tl.zeros([ROWS, COLUMNS], tl.float32)
        if CONTENT:
            k = load_rows(K + b * kb + h * kh, j, kn, last, D, PADDED).to(DOT)
            product = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        v = load_rows(V + b * vb + h * vh, j, vn, last, D, PADDED).to(DOT)
        s, kept = tile_scores(
            product, i[:, None], j[None, :], tl.program_id(1) * ROWS, start,
            b, h, n, last, real, OFFSETS, QUERIES, KEYS, DENSE, ab, ah, an, bb, bh, bn, dense_b,
            TOKEN_WORDS, HEAD_WORDS, COLUMN_WORDS, DRAWN, HAS_OFFSET, QUERY, KEY, HAS_DENSE, HAS_MASK, CLAMP, THRESHOLD, KEYED,
            LEVEL, NEAR,
        )  # fmt: skip
        higher = tl.maximum(top, tl.max(s, 1))
        factor = tl.exp(top - higher)
        p = tl.exp(s - higher[:, None])
        total = total * factor + tl.sum(p, 1)
        if THRESHOLD > 0:
            p = tl.where(kept, p, 0.0)
        y = y * factor[:, None] + tl.dot(p.to(DOT), v, input_precision="ieee")
        top = higher
    share = tl.where(i < last, RESCALE, 0.0) / tl.where(i < last, total, 1.0)
    store_rows(Y + (first * H + h) * D, i, H * D, count, y * share[:, None], D, PADDED)
    tl.store(TOP + row * n + i, top, mask=i < last)
    tl.store(TOTAL + row * n + i, total, mask=i < last)


@triton.jit
def value_band(
    Q, K, V, OFFSETS, QUERIES, KEYS, DENSE, REAL, TOKEN_WORDS, HEAD_WORDS, COLUMN_WORDS, DRAWN, TOP, TOTAL, BAND,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, ab, ah, an, bb, bh, bn, dense_b, scale, H, n,
    D: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ALL: tl.constexpr, CONTENT: tl.constexpr,
    HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, HAS_DENSE: tl.constexpr,
    HAS_MASK: tl.constexpr, CLAMP: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr, KEYED: tl.constexpr,
    DOT: tl.constexpr, LEVEL: tl.constexpr, NEAR: tl.constexpr,
):  # fmt: skip
    """The probabilities after dropout summed by offset, (B, H, n, VALUE): what a value table is
    multiplied with."""
    row = tl.program_id(0).to(tl.int64)
    b, h = row // H, row % H
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    real, band = REAL + b * n, BAND + row * n * VALUE
    last = last_real(real, n, HAS_MASK, ALL)
    q = load_rows(Q + b * qb + h * qh, i, qn, last, D, PADDED).to(DOT)
    top = tl.load(TOP + row * n + i, mask=i < last, other=float("inf"))
    total = tl.load(TOTAL + row * n + i, mask=i < last, other=1.0)
    low, high = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
    for start in range(0, tl.where(tl.program_id(1) * ROWS < last, last, 0), COLUMNS):
        j = start + tl.arange(0, COLUMNS)
        product = tl.zeros([ROWS, COLUMNS], tl.float32)
        if CONTENT:
            k = load_rows(K + b * kb + h * kh, j, kn, last, D, PADDED).to(DOT)
            product = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s, kept = tile_scores(
            product, i[:, None], j[None, :], tl.program_id(1) * ROWS, start,
            b, h, n, last, real, OFFSETS, QUERIES, KEYS, DENSE, ab, ah, an, bb, bh, bn, dense_b,
            TOKEN_WORDS, HEAD_WORDS, COLUMN_WORDS, DRAWN, HAS_OFFSET, QUERY, KEY, HAS_DENSE, HAS_MASK, CLAMP, THRESHOLD, KEYED,
            LEVEL, NEAR,
        )  # fmt: skip
        p = tl.exp(s - top[:, None]) * (RESCALE / total)[:, None]
        if THRESHOLD > 0:
            p = tl.where(kept, p, 0.0)
        inside = (i[:, None] < last) & (j[None, :] < last)
        offset = j[None, :] - i[:, None]
        near = is_near(tl.program_id(1) * ROWS, start, ROWS, COLUMNS, VALUE)
        write_window(band, i[:, None], VALUE, offset, inside, near, p, VALUE, CLAMP)
        if CLAMP:
            left, right = edge_sums(p, offset, VALUE, 1)
            low, high = low + left, high + right
    if CLAMP:
        store_edges(band, i, VALUE, last, low, high, VALUE, False)


@triton.jit
def backward_columns(
    Q, K, V, OFFSETS, QUERIES, KEYS, DENSE, REAL, TOKEN_WORDS, HEAD_WORDS, COLUMN_WORDS, DRAWN,
    STARTS, TOP, TOTAL, DELTA, GRAD, VALUE_GRAD,
    GRAD_Q, GRAD_K, GRAD_V, GRAD_OFFSETS, GRAD_QUERIES, GRAD_KEYS, GRAD_SCORES,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, ab, ah, an, bb, bh, bn, dense_b, scale, H, n, gb, gh, gn,
    D: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ALL: tl.constexpr, CONTENT: tl.constexpr,
    HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, HAS_DENSE: tl.constexpr,
    HAS_MASK: tl.constexpr, CLAMP: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr, KEYED: tl.constexpr,
    DOT: tl.constexpr, LEVEL: tl.constexpr, NEAR: tl.constexpr, WHOLE: tl.constexpr, KEEP: tl.constexpr, FEWER: tl.constexpr,
    MOST: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Gradients of k, v, b of one block of keys, and of β tile by tile; where one block is all
    keys, also of q, and to KEEP of the scores; of sequences of more than FEWER tokens, and MOST at
    most.

    Tiles have keys along their rows, so that dk and dv are products of tiles as they are; dq is
    made transposed for that reason.
    """
    row = tl.program_id(0).to(tl.int64)
    b, h = row // H, row % H
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    real = REAL + b * n
    last = last_real(real, n, HAS_MASK, ALL)
    if WHOLE:  # noqa: SIM102 (known when it is compiled)
        if (last <= FEWER) | (last > MOST):
            return
    first, count, last = tokens_of(STARTS, b, n, last, PACKED)
    own, of_row = (first * H + h) * D, b * gb + h * gh
    if PACKED:
        Q, K, V, of_row = Q + first * qn, K + first * kn, V + first * vn, of_row + first * gn
        QUERIES, KEYS = QUERIES + first * an, KEYS + first * bn
    v = load_rows(V + b * vb + h * vh, j, vn, last, D, PADDED).to(DOT)
    k = v
    if CONTENT:
        k = load_rows(K + b * kb + h * kh, j, kn, last, D, PADDED).to(DOT)
    grad_k, grad_v = (
        tl.zeros([COLUMNS, PADDED], tl.float32),
        tl.zeros([COLUMNS, PADDED], tl.float32),
    )
    low, high = tl.zeros([COLUMNS], tl.float32), tl.zeros([COLUMNS], tl.float32)
    for start in range(0, tl.where(tl.program_id(1) * COLUMNS < last, last, 0), ROWS):
        at = start + tl.arange(0, ROWS)
        i = at[None, :]
        grad = load_rows(GRAD + own, at, H * D, last, D, PADDED).to(DOT)
        product, q = tl.zeros([COLUMNS, ROWS], tl.float32), grad
        if CONTENT:
            q = load_rows(Q + b * qb + h * qh, at, qn, last, D, PADDED).to(DOT)
            product = tl.dot(k, tl.trans(q), input_precision="ieee") * scale
        s, kept = tile_scores(
            product, i, j[:, None], start, tl.program_id(1) * COLUMNS,
            b, h, n, last, real, OFFSETS, QUERIES, KEYS, DENSE, ab, ah, an, bb, bh, bn, dense_b,
            TOKEN_WORDS, HEAD_WORDS, COLUMN_WORDS, DRAWN, HAS_OFFSET, QUERY, KEY, HAS_DENSE, HAS_MASK, CLAMP, THRESHOLD, KEYED,
            LEVEL, NEAR,
        )  # fmt: skip
        top = tl.load(TOP + row * n + i, mask=i < last, other=float("inf"))
        total = tl.load(TOTAL + row * n + i, mask=i < last, other=1.0)
        delta = top
        if not WHOLE:
            delta = tl.load(DELTA + row * n + i, mask=i < last, other=0.0)
        p, ds = differentiate(
            s, tl.dot(v, tl.trans(grad), input_precision="ieee"), i, j[:, None], last, top, total, delta, kept,
            VALUE_GRAD + row * n * VALUE, VALUE, CLAMP, THRESHOLD, RESCALE, WHOLE, 0,
        )  # fmt: skip
        inside = (i < n) & (j[:, None] < n)
        grad_v += tl.dot(p.to(DOT), grad, input_precision="ieee")
        if CONTENT:
            grad_k += tl.dot(ds.to(DOT), q, input_precision="ieee")
        if KEY > 0 and not WHOLE:
            offset = i - j[:, None]
            near = is_near(start, tl.program_id(1) * COLUMNS, ROWS, COLUMNS, KEY)
            write_window(
                GRAD_KEYS + b * bb + h * bh,
                j[:, None],
                bn,
                offset,
                inside,
                near,
                ds,
                KEY,
                CLAMP,
            )
            if CLAMP:
                left, right = edge_sums(ds, offset, KEY, 1)
                low, high = low + left, high + right
        if HAS_OFFSET:
            ahead, behind = diagonal_sums(ds, ROWS, COLUMNS)
            tile = (row * tl.cdiv(n, ROWS) + start // ROWS) * tl.num_programs(1) + tl.program_id(1)
            place = GRAD_OFFSETS + tile * (2 * COLUMNS) + tl.arange(0, COLUMNS)
            tl.store(place, behind)
            tl.store(place + COLUMNS, ahead)
        if WHOLE:
            if CONTENT:
                grad_q = tl.dot(tl.trans(k), ds.to(DOT), input_precision="ieee") * scale
                store_rows(GRAD_Q + of_row, at, gn, count, tl.trans(grad_q), D, PADDED)
            if KEEP:
                kept_ds = GRAD_SCORES + row * n * n + i * n + j[:, None]
                tl.store(kept_ds, ds.to(GRAD_SCORES.dtype.element_ty), mask=inside)
    if CONTENT:
        store_rows(GRAD_K + of_row, j, gn, count, grad_k * scale, D, PADDED)
    store_rows(GRAD_V + of_row, j, gn, count, grad_v * RESCALE, D, PADDED)
    if KEY > 0 and CLAMP and not WHOLE:
        store_edges(GRAD_KEYS + b * bb + h * bh, j, bn, n, low, high, KEY, False)
    if WHOLE and HAS_MASK:  # what no tile holds is padding
        every = tl.arange(0, ALL)[:, None]
        for start in range(0, n, ROWS):
            at = start + tl.arange(0, ROWS)
            nothing = tl.zeros([ROWS, PADDED], tl.float32)
            if CONTENT and start >= last:
                store_rows(GRAD_Q + of_row, at, gn, count, nothing, D, PADDED)
            if start >= COLUMNS:
                if CONTENT:
                    store_rows(GRAD_K + of_row, at, gn, count, nothing, D, PADDED)
                store_rows(GRAD_V + of_row, at, gn, count, nothing, D, PADDED)
            if KEEP:
                outside = (
                    (every >= tl.where(start < last, COLUMNS, 0)) & (every < n) & (at[None, :] < n)
                )
                place = GRAD_SCORES + row * n * n + at[None, :] * n + every
                tl.store(place, tl.zeros([ALL, ROWS], GRAD_SCORES.dtype.element_ty), mask=outside)


@triton.jit
def backward_rows(
    Q, K, V, OFFSETS, QUERIES, KEYS, DENSE, REAL, TOKEN_WORDS, HEAD_WORDS, COLUMN_WORDS, DRAWN,
    Y, TOP, TOTAL, DELTA, GRAD, VALUE_GRAD, GRAD_Q, GRAD_QUERIES,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, ab, ah, an, bb, bh, bn, dense_b, scale, H, n, gb, gh, gn,
    D: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ALL: tl.constexpr, CONTENT: tl.constexpr,
    HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, HAS_DENSE: tl.constexpr,
    HAS_MASK: tl.constexpr, CLAMP: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr, KEYED: tl.constexpr,
    DOT: tl.constexpr, LEVEL: tl.constexpr, NEAR: tl.constexpr,
):  # fmt: skip
    """Gradients of q and a of one block of queries, and its `delta`, which `backward_columns`
    reads."""
    row = tl.program_id(0).to(tl.int64)
    b, h = row // H, row % H
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    real, own = REAL + b * n, (b * n * H + h) * D
    last = last_real(real, n, HAS_MASK, ALL)
    grad = load_rows(GRAD + own, i, H * D, last, D, PADDED).to(DOT)
    q = grad
    if CONTENT:
        q = load_rows(Q + b * qb + h * qh, i, qn, last, D, PADDED).to(DOT)
    y = load_rows(Y + own, i, H * D, last, D, PADDED)
    delta = tl.sum(grad.to(tl.float32) * y.to(tl.float32), 1)
    tl.store(DELTA + row * n + i, delta, mask=i < last)
    top = tl.load(TOP + row * n + i, mask=i < last, other=float("inf"))
    total = tl.load(TOTAL + row * n + i, mask=i < last, other=1.0)
    grad_q = tl.zeros([ROWS, PADDED], tl.float32)
    of_queries = GRAD_QUERIES + b * ab + h * ah - (1 if LEVEL else 0)
    low, high = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
    for start in range(0, tl.where(tl.program_id(1) * ROWS < last, last, 0), COLUMNS):
        j = start + tl.arange(0, COLUMNS)
        v = load_rows(V + b * vb + h * vh, j, vn, last, D, PADDED).to(DOT)
        product, k = tl.zeros([ROWS, COLUMNS], tl.float32), v
        if CONTENT:
            k = load_rows(K + b * kb + h * kh, j, kn, last, D, PADDED).to(DOT)
            product = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s, kept = tile_scores(
            product, i[:, None], j[None, :], tl.program_id(1) * ROWS, start,
            b, h, n, last, real, OFFSETS, QUERIES, KEYS, DENSE, ab, ah, an, bb, bh, bn, dense_b,
            TOKEN_WORDS, HEAD_WORDS, COLUMN_WORDS, DRAWN, HAS_OFFSET, QUERY, KEY, HAS_DENSE, HAS_MASK, CLAMP, THRESHOLD, KEYED,
            LEVEL, NEAR,
        )  # fmt: skip
        _, ds = differentiate(
            s, tl.dot(grad, tl.trans(v), input_precision="ieee"), i[:, None], j[None, :], last, top[:, None],
            total[:, None], delta[:, None], kept, VALUE_GRAD + row * n * VALUE, VALUE, CLAMP, THRESHOLD, RESCALE, False, 1,
        )  # fmt: skip
        if CONTENT:
            grad_q += tl.dot(ds.to(DOT), k, input_precision="ieee")
        if QUERY > 0:
            inside = (i[:, None] < last) & (j[None, :] < last)
            offset = j[None, :] - i[:, None]
            near = is_near(tl.program_id(1) * ROWS, start, ROWS, COLUMNS, QUERY)
            write_window(of_queries, i[:, None], an, offset, inside, near, ds, QUERY, CLAMP)
            if CLAMP:
                left, right = edge_sums(ds, offset, QUERY, 1)
                low, high = low + left, high + right
    if CONTENT:
        store_rows(GRAD_Q + b * gb + h * gh, i, gn, n, grad_q * scale, D, PADDED)
    if QUERY > 0 and CLAMP:
        store_edges(of_queries, i, an, n, low, high, QUERY, LEVEL)


@triton.jit
def backward_dense(
    Q, K, V, OFFSETS, QUERIES, KEYS, DENSE, REAL, TOKEN_WORDS, HEAD_WORDS, COLUMN_WORDS, DRAWN,
    TOP, TOTAL, DELTA, GRAD, VALUE_GRAD, GRAD_DENSE,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, ab, ah, an, bb, bh, bn, dense_b, scale, H, n, examples,
    D: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ALL: tl.constexpr, CONTENT: tl.constexpr,
    HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, HAS_DENSE: tl.constexpr,
    HAS_MASK: tl.constexpr, CLAMP: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr, KEYED: tl.constexpr,
    DOT: tl.constexpr, LEVEL: tl.constexpr, NEAR: tl.constexpr,
):  # fmt: skip
    """The gradient of one tile of D, summed over the `examples` that share it, one after
    another."""
    dh = tl.program_id(0).to(tl.int64)
    h = dh % H
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    sum_ds = tl.zeros([ROWS, COLUMNS], tl.float32)
    for number in range(0, examples):
        b = (dh // H) * examples + number
        row = b * H + h
        real, own = REAL + b * n, (b * n * H + h) * D
        last = last_real(real, n, HAS_MASK, ALL)
        v = load_rows(V + b * vb + h * vh, j, vn, last, D, PADDED).to(DOT)
        grad = load_rows(GRAD + own, i, H * D, last, D, PADDED).to(DOT)
        product = tl.zeros([ROWS, COLUMNS], tl.float32)
        if CONTENT:
            q = load_rows(Q + b * qb + h * qh, i, qn, last, D, PADDED).to(DOT)
            k = load_rows(K + b * kb + h * kh, j, kn, last, D, PADDED).to(DOT)
            product = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s, kept = tile_scores(
            product, i[:, None], j[None, :], tl.program_id(1) * ROWS, tl.program_id(2) * COLUMNS,
            b, h, n, last, real, OFFSETS, QUERIES, KEYS, DENSE, ab, ah, an, bb, bh, bn, dense_b,
            TOKEN_WORDS, HEAD_WORDS, COLUMN_WORDS, DRAWN, HAS_OFFSET, QUERY, KEY, HAS_DENSE, HAS_MASK, CLAMP, THRESHOLD, KEYED,
            LEVEL, NEAR,
        )  # fmt: skip
        top = tl.load(TOP + row * n + i, mask=i < last, other=float("inf"))
        total = tl.load(TOTAL + row * n + i, mask=i < last, other=1.0)
        delta = tl.load(DELTA + row * n + i, mask=i < last, other=0.0)
        _, ds = differentiate(
            s, tl.dot(grad, tl.trans(v), input_precision="ieee"), i[:, None], j[None, :], last, top[:, None],
            total[:, None], delta[:, None], kept, VALUE_GRAD + row * n * VALUE, VALUE, CLAMP, THRESHOLD, RESCALE, False, 1,
        )  # fmt: skip
        sum_ds += ds
    inside = (i[:, None] < n) & (j[None, :] < n)
    tl.store(GRAD_DENSE + dh * n * n + i[:, None] * n + j[None, :], sum_ds, mask=inside)


@triton.jit
def join_diagonals(
    BY_TILE,
    OUT,
    n,
    row_tiles,
    column_tiles,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """(H, row tiles, column tiles, 2 · COLUMNS) sums along the diagonals of each tile, offsets
    −COLUMNS … COLUMNS−1 from its corner → (H, 2n−1) of the whole matrix."""
    h = tl.program_id(0)
    offset = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK) - (n - 1)
    total = tl.zeros([BLOCK], tl.float32)
    for r in range(0, row_tiles):
        for c in range(0, column_tiles):
            place = offset + r * ROWS - c * COLUMNS + COLUMNS
            tile = BY_TILE + ((h * row_tiles + r) * column_tiles + c) * (2 * COLUMNS)
            total += tl.load(tile + place, mask=(place >= 0) & (place < 2 * COLUMNS), other=0.0)
    tl.store(OUT + h * (2 * n - 1) + offset + n - 1, total, mask=offset < n)
