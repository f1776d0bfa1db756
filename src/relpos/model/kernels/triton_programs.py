"""The Triton programs of attention: forward, and the three walks over the scores that make all gradients. See `triton.py`.

Names of arguments: strides of q, k, v by example, head and token (`qb, qh, qn` …); `y`, gradients of y, q, k, v are
(B, n, H, D) without gaps; `top` and `total` are (B, H, n), the largest score of a row and Σ_j exp(s_ij − top_i).
"""

import triton
import triton.language as tl

from relpos.model.kernels.triton_tiles import (
    LOWEST,
    diagonal_sums,
    differentiate,
    edge_sums,
    kept_by_dropout,
    last_real,
    load_rows,
    scores,
    store_edges,
    store_rows,
    write_window,
)


@triton.jit
def forward(
    Q, K, V, OFFSETS, QUERIES, KEYS, DENSE, REAL, ROW_WORDS, COLUMN_WORDS, Y, TOP, TOTAL,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, dense_b, H, n,
    D: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, ALL: tl.constexpr, CONTENT: tl.constexpr,
    HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, HAS_DENSE: tl.constexpr,
    HAS_MASK: tl.constexpr, CLAMP: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """y, top and total of one block of queries, walking over the keys with a running softmax."""
    bh = tl.program_id(0).to(tl.int64)
    b, h = bh // H, bh % H
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    real = REAL + b * n
    q = load_rows(Q + b * qb + h * qh, i, qn, n, D, PADDED).to(DOT)
    # Finite: with −∞ a row whose first keys are all hidden by β = −∞ would have −∞ − (−∞) here.
    top = tl.full([BLOCK], LOWEST, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    y = tl.zeros([BLOCK, PADDED], tl.float32)
    for start in range(0, last_real(real, n, HAS_MASK, ALL), BLOCK):
        j = start + tl.arange(0, BLOCK)
        k = load_rows(K + b * kb + h * kh, j, kn, n, D, PADDED).to(DOT)
        v = load_rows(V + b * vb + h * vh, j, vn, n, D, PADDED).to(DOT)
        s, _ = scores(
            q, k, i, j, n, real, OFFSETS + h * (2 * n - 1), QUERIES + bh * n * QUERY, KEYS + bh * n * KEY,
            DENSE + b * dense_b + h * n * n, CONTENT, HAS_OFFSET, QUERY, KEY, HAS_DENSE, HAS_MASK, CLAMP,
        )  # fmt: skip
        higher = tl.maximum(top, tl.max(s, 1))
        factor = tl.exp(top - higher)
        p = tl.exp(s - higher[:, None])
        total = total * factor + tl.sum(p, 1)
        if THRESHOLD > 0:
            p = tl.where(kept_by_dropout(ROW_WORDS + bh * n, COLUMN_WORDS, i, j, n, THRESHOLD), p, 0.0)
        y = y * factor[:, None] + tl.dot(p.to(DOT), v, input_precision="ieee")
        top = higher
    store_rows(Y + (b * n * H + h) * D, i, H * D, n, y * (RESCALE / total)[:, None], D, PADDED)
    tl.store(TOP + bh * n + i, top, mask=i < n)
    tl.store(TOTAL + bh * n + i, total, mask=i < n)


@triton.jit
def value_band(
    Q, K, V, OFFSETS, QUERIES, KEYS, DENSE, REAL, ROW_WORDS, COLUMN_WORDS, TOP, TOTAL, BAND,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, dense_b, H, n,
    D: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, ALL: tl.constexpr, CONTENT: tl.constexpr,
    HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, HAS_DENSE: tl.constexpr,
    HAS_MASK: tl.constexpr, CLAMP: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """The probabilities after dropout summed by offset, (B, H, n, VALUE): what a value table is multiplied with."""
    bh = tl.program_id(0).to(tl.int64)
    b, h = bh // H, bh % H
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    real, band = REAL + b * n, BAND + bh * n * VALUE
    q = load_rows(Q + b * qb + h * qh, i, qn, n, D, PADDED).to(DOT)
    top = tl.load(TOP + bh * n + i, mask=i < n, other=0.0)
    total = tl.load(TOTAL + bh * n + i, mask=i < n, other=1.0)
    low, high = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in range(0, last_real(real, n, HAS_MASK, ALL), BLOCK):
        j = start + tl.arange(0, BLOCK)
        k = load_rows(K + b * kb + h * kh, j, kn, n, D, PADDED).to(DOT)
        s, _ = scores(
            q, k, i, j, n, real, OFFSETS + h * (2 * n - 1), QUERIES + bh * n * QUERY, KEYS + bh * n * KEY,
            DENSE + b * dense_b + h * n * n, CONTENT, HAS_OFFSET, QUERY, KEY, HAS_DENSE, HAS_MASK, CLAMP,
        )  # fmt: skip
        p = tl.exp(s - top[:, None]) * (RESCALE / total)[:, None]
        if THRESHOLD > 0:
            p = tl.where(kept_by_dropout(ROW_WORDS + bh * n, COLUMN_WORDS, i, j, n, THRESHOLD), p, 0.0)
        inside = (i[:, None] < n) & (j[None, :] < n)
        offset = j[None, :] - i[:, None]
        write_window(band, i[:, None], offset, inside, p, VALUE, CLAMP)
        if CLAMP:
            left, right = edge_sums(p, offset, VALUE, 1)
            low, high = low + left, high + right
    if CLAMP:
        store_edges(band, i, n, low, high, VALUE)


@triton.jit
def backward_columns(
    Q, K, V, OFFSETS, QUERIES, KEYS, DENSE, REAL, ROW_WORDS, COLUMN_WORDS, Y, TOP, TOTAL, GRAD, VALUE_GRAD,
    GRAD_Q, GRAD_K, GRAD_V, GRAD_OFFSETS, GRAD_QUERIES, GRAD_KEYS,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, dense_b, H, n,
    D: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, ALL: tl.constexpr, CONTENT: tl.constexpr,
    HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, HAS_DENSE: tl.constexpr,
    HAS_MASK: tl.constexpr, CLAMP: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr, DOT: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """Gradients of k, v, b of one block of keys, and of β tile by tile; of q and a too, where one tile is the whole matrix."""
    bh = tl.program_id(0).to(tl.int64)
    b, h = bh // H, bh % H
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tiles = tl.num_programs(1)
    real, own = REAL + b * n, (b * n * H + h) * D
    k = load_rows(K + b * kb + h * kh, j, kn, n, D, PADDED).to(DOT)
    v = load_rows(V + b * vb + h * vh, j, vn, n, D, PADDED).to(DOT)
    grad_k, grad_v = tl.zeros([BLOCK, PADDED], tl.float32), tl.zeros([BLOCK, PADDED], tl.float32)
    low, high = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    seen = tl.program_id(1) * BLOCK < last_real(real, n, HAS_MASK, ALL)
    for start in range(0, tl.where(seen, n, 0), BLOCK):
        i = start + tl.arange(0, BLOCK)
        q = load_rows(Q + b * qb + h * qh, i, qn, n, D, PADDED).to(DOT)
        grad = load_rows(GRAD + own, i, H * D, n, D, PADDED).to(DOT)
        y = load_rows(Y + own, i, H * D, n, D, PADDED)
        s, scored = scores(
            q, k, i, j, n, real, OFFSETS + h * (2 * n - 1), QUERIES + bh * n * QUERY, KEYS + bh * n * KEY,
            DENSE + b * dense_b + h * n * n, CONTENT, HAS_OFFSET, QUERY, KEY, HAS_DENSE, HAS_MASK, CLAMP,
        )  # fmt: skip
        top = tl.load(TOP + bh * n + i, mask=i < n, other=0.0)
        total = tl.load(TOTAL + bh * n + i, mask=i < n, other=1.0)
        p, ds = differentiate(
            s, scored, top, total, v, grad, y, i, j, n, ROW_WORDS + bh * n, COLUMN_WORDS, VALUE_GRAD + bh * n * VALUE,
            VALUE, CLAMP, THRESHOLD, RESCALE, DOT, WHOLE,
        )  # fmt: skip
        inside = (i[:, None] < n) & (j[None, :] < n)
        grad_v += tl.dot(tl.trans(p.to(DOT)), grad, input_precision="ieee")
        if CONTENT:
            grad_k += tl.dot(tl.trans(ds.to(DOT)), q, input_precision="ieee")
        if KEY > 0:
            write_window(GRAD_KEYS + bh * n * KEY, j[None, :], i[:, None] - j[None, :], inside, ds, KEY, CLAMP)
            if CLAMP:
                left, right = edge_sums(ds, i[:, None] - j[None, :], KEY, 0)
                low, high = low + left, high + right
        if HAS_OFFSET:
            ahead, behind = diagonal_sums(ds, BLOCK)
            tile = GRAD_OFFSETS + ((bh * tiles + start // BLOCK) * tiles + tl.program_id(1)) * (2 * BLOCK)
            tl.store(tile + tl.arange(0, BLOCK), behind)
            tl.store(tile + BLOCK + tl.arange(0, BLOCK), ahead)
        if WHOLE:
            if CONTENT:
                store_rows(GRAD_Q + own, i, H * D, n, tl.dot(ds.to(DOT), k, input_precision="ieee"), D, PADDED)
            if QUERY > 0:
                offset = j[None, :] - i[:, None]
                write_window(GRAD_QUERIES + bh * n * QUERY, i[:, None], offset, inside, ds, QUERY, CLAMP)
                if CLAMP:
                    left, right = edge_sums(ds, offset, QUERY, 1)
                    store_edges(GRAD_QUERIES + bh * n * QUERY, i, n, left, right, QUERY)
    if CONTENT:
        store_rows(GRAD_K + own, j, H * D, n, grad_k, D, PADDED)
    store_rows(GRAD_V + own, j, H * D, n, grad_v, D, PADDED)
    if KEY > 0 and CLAMP:
        store_edges(GRAD_KEYS + bh * n * KEY, j, n, low, high, KEY)


@triton.jit
def backward_rows(
    Q, K, V, OFFSETS, QUERIES, KEYS, DENSE, REAL, ROW_WORDS, COLUMN_WORDS, Y, TOP, TOTAL, GRAD, VALUE_GRAD,
    GRAD_Q, GRAD_QUERIES,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, dense_b, H, n,
    D: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, ALL: tl.constexpr, CONTENT: tl.constexpr,
    HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, HAS_DENSE: tl.constexpr,
    HAS_MASK: tl.constexpr, CLAMP: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr, DOT: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """Gradients of q and a of one block of queries."""
    bh = tl.program_id(0).to(tl.int64)
    b, h = bh // H, bh % H
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    real, own = REAL + b * n, (b * n * H + h) * D
    q = load_rows(Q + b * qb + h * qh, i, qn, n, D, PADDED).to(DOT)
    grad = load_rows(GRAD + own, i, H * D, n, D, PADDED).to(DOT)
    y = load_rows(Y + own, i, H * D, n, D, PADDED)
    top = tl.load(TOP + bh * n + i, mask=i < n, other=0.0)
    total = tl.load(TOTAL + bh * n + i, mask=i < n, other=1.0)
    grad_q = tl.zeros([BLOCK, PADDED], tl.float32)
    low, high = tl.zeros([BLOCK], tl.float32), tl.zeros([BLOCK], tl.float32)
    for start in range(0, last_real(real, n, HAS_MASK, ALL), BLOCK):
        j = start + tl.arange(0, BLOCK)
        k = load_rows(K + b * kb + h * kh, j, kn, n, D, PADDED).to(DOT)
        v = load_rows(V + b * vb + h * vh, j, vn, n, D, PADDED).to(DOT)
        s, scored = scores(
            q, k, i, j, n, real, OFFSETS + h * (2 * n - 1), QUERIES + bh * n * QUERY, KEYS + bh * n * KEY,
            DENSE + b * dense_b + h * n * n, CONTENT, HAS_OFFSET, QUERY, KEY, HAS_DENSE, HAS_MASK, CLAMP,
        )  # fmt: skip
        _, ds = differentiate(
            s, scored, top, total, v, grad, y, i, j, n, ROW_WORDS + bh * n, COLUMN_WORDS, VALUE_GRAD + bh * n * VALUE,
            VALUE, CLAMP, THRESHOLD, RESCALE, DOT, WHOLE,
        )  # fmt: skip
        if CONTENT:
            grad_q += tl.dot(ds.to(DOT), k, input_precision="ieee")
        if QUERY > 0:
            inside = (i[:, None] < n) & (j[None, :] < n)
            offset = j[None, :] - i[:, None]
            write_window(GRAD_QUERIES + bh * n * QUERY, i[:, None], offset, inside, ds, QUERY, CLAMP)
            if CLAMP:
                left, right = edge_sums(ds, offset, QUERY, 1)
                low, high = low + left, high + right
    if CONTENT:
        store_rows(GRAD_Q + own, i, H * D, n, grad_q, D, PADDED)
    if QUERY > 0 and CLAMP:
        store_edges(GRAD_QUERIES + bh * n * QUERY, i, n, low, high, QUERY)


@triton.jit
def backward_dense(
    Q, K, V, OFFSETS, QUERIES, KEYS, DENSE, REAL, ROW_WORDS, COLUMN_WORDS, Y, TOP, TOTAL, GRAD, VALUE_GRAD, GRAD_DENSE,
    qb, qh, qn, kb, kh, kn, vb, vh, vn, dense_b, H, n, examples,
    D: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr, ALL: tl.constexpr, CONTENT: tl.constexpr,
    HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr, VALUE: tl.constexpr, HAS_DENSE: tl.constexpr,
    HAS_MASK: tl.constexpr, CLAMP: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr, DOT: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """The gradient of one tile of D, summed over the `examples` that share it, one after another."""
    dh = tl.program_id(0).to(tl.int64)
    h = dh % H
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    sum_ds = tl.zeros([BLOCK, BLOCK], tl.float32)
    for number in range(0, examples):
        b = (dh // H) * examples + number
        bh = b * H + h
        real, own = REAL + b * n, (b * n * H + h) * D
        q = load_rows(Q + b * qb + h * qh, i, qn, n, D, PADDED).to(DOT)
        k = load_rows(K + b * kb + h * kh, j, kn, n, D, PADDED).to(DOT)
        v = load_rows(V + b * vb + h * vh, j, vn, n, D, PADDED).to(DOT)
        grad = load_rows(GRAD + own, i, H * D, n, D, PADDED).to(DOT)
        y = load_rows(Y + own, i, H * D, n, D, PADDED)
        top = tl.load(TOP + bh * n + i, mask=i < n, other=0.0)
        total = tl.load(TOTAL + bh * n + i, mask=i < n, other=1.0)
        s, scored = scores(
            q, k, i, j, n, real, OFFSETS + h * (2 * n - 1), QUERIES + bh * n * QUERY, KEYS + bh * n * KEY,
            DENSE + b * dense_b + h * n * n, CONTENT, HAS_OFFSET, QUERY, KEY, HAS_DENSE, HAS_MASK, CLAMP,
        )  # fmt: skip
        _, ds = differentiate(
            s, scored, top, total, v, grad, y, i, j, n, ROW_WORDS + bh * n, COLUMN_WORDS, VALUE_GRAD + bh * n * VALUE,
            VALUE, CLAMP, THRESHOLD, RESCALE, DOT, WHOLE,
        )  # fmt: skip
        sum_ds += ds
    inside = (i[:, None] < n) & (j[None, :] < n)
    tl.store(GRAD_DENSE + dh * n * n + i[:, None] * n + j[None, :], sum_ds, mask=inside)
