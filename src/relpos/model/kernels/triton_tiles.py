"""What the Triton programs share: one tile of scores, of dropout and of their gradients.

A tile holds scores s_ij of one head of one example, i a query and j a key. It may lie either way,
so that no product is turned around before it is multiplied: i and j are given as (rows, 1) and (1,
columns), or as (1, columns) and (rows, 1). Pointers to a term have been moved to that head and
example already. Sums are in float32; `DOT` is the number format of products.
"""

import triton
import triton.language as tl

BLOCK = tl.constexpr(16)
"""Keys whose terms are read together: 32 bytes of bfloat16."""
MASKED = tl.constexpr(-1e30)  # the score of a padding token, as in `eager`
LOWEST = tl.constexpr(-3e38)  # below all scores
_FACTOR = tl.constexpr(-0x61C8_8646_80B5_83EB)  # as in `relpos.model.dropout`
_LOW, _HIGH = tl.constexpr(0x7F4A_7C15), tl.constexpr(0x9E37_79B9)  # its halves


@triton.jit
def load_rows(base, rows, stride, n, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """(rows, PADDED) of a matrix of n rows, 0 beyond them and beyond WIDTH."""
    column = tl.arange(0, PADDED)[None, :]
    return tl.load(
        base + rows[:, None] * stride + column,
        mask=(rows[:, None] < n) & (column < WIDTH),
        other=0.0,
    )


@triton.jit
def store_rows(base, rows, stride, n, values, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """The adjoint of `load_rows`, in the number format of the pointer."""
    column = tl.arange(0, PADDED)[None, :]
    inside = (rows[:, None] < n) & (column < WIDTH)
    tl.store(base + rows[:, None] * stride + column, values.to(base.dtype.element_ty), mask=inside)


@triton.jit
def load_each(base, owner, stride, n):
    """A number for each of some rows (rows, 1), or columns (1, columns), 0 from n on. Where there
    is one axis it is the only one of the load: a thread reads once what it needs for all its
    columns, or rows."""
    if owner.shape[0] > 1 and owner.shape[1] > 1:
        numbers = tl.load(base + owner * stride, mask=owner < n, other=0)
    else:
        place = tl.reshape(owner, [owner.numel])
        numbers = tl.reshape(tl.load(base + place * stride, mask=place < n, other=0), owner.shape)
    return numbers


@triton.jit
def last_real(real, n, HAS_MASK: tl.constexpr, ALL: tl.constexpr):
    """One more than the place of the last real token; queries and keys beyond it need no work. n
    for padding alone."""
    last = n
    if HAS_MASK:
        place = tl.arange(0, ALL)
        kept = tl.load(real + place, mask=place < n, other=0) != 0
        last = tl.max(tl.where(kept, place + 1, 0), 0)
        last = tl.where(last == 0, n, last)
    return last


@triton.jit
def tokens_of(STARTS, b, n, last, PACKED: tl.constexpr):
    """Where the tokens of a sequence begin in a tensor of the tokens of all, how many it has there,
    and `last` or, where fewer of padding alone are there, their number."""
    first, count = b * n, n
    if PACKED:
        first = tl.load(STARTS + b)
        count = (tl.load(STARTS + b + 1) - first).to(tl.int32)
        last = tl.minimum(last, count)
    return first, count, last


@triton.jit
def is_near(first_i, first_j, ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr):
    """Whether a tile of ROWS queries and COLUMNS keys has an offset on the band of a window: few
    tiles of a long sequence have."""
    K: tl.constexpr = WIDTH // 2
    return (first_j - first_i < ROWS + K) & (first_i - first_j < COLUMNS + K)


@triton.jit
def add_window(
    s, base, owner, stride, offset, n, inside, near, WIDTH: tl.constexpr, CLAMP: tl.constexpr, LEVEL: tl.constexpr,
):  # fmt: skip
    """s plus the convolution kernel of each owner at these offsets. Only the band is read element
    by element. At LEVEL the first column is 0, and not stored: `base` points to where it would
    be."""
    K: tl.constexpr = WIDTH // 2
    FIRST: tl.constexpr = 1 - K if LEVEL else -K
    if near:
        place = base + owner * stride + offset + K
        s += tl.load(place, mask=inside & (offset >= FIRST) & (offset <= K), other=0.0).to(
            tl.float32
        )
    if CLAMP:
        s += beyond_window(base, owner, stride, offset, n, WIDTH, LEVEL)
    return s


@triton.jit
def beyond_window(base, owner, stride, offset, n, WIDTH: tl.constexpr, LEVEL: tl.constexpr):
    """What a clamped window adds outside its band: its outermost columns."""
    K: tl.constexpr = WIDTH // 2
    added = tl.where(offset > K, load_each(base + WIDTH - 1, owner, stride, n).to(tl.float32), 0.0)
    if not LEVEL:
        added = tl.where(offset < -K, load_each(base, owner, stride, n).to(tl.float32), added)
    return added


@triton.jit
def write_window(
    base,
    owner,
    stride,
    offset,
    inside,
    near,
    values,
    WIDTH: tl.constexpr,
    CLAMP: tl.constexpr,
):
    """Stores the values on the band: each has an address of its own. Clamped, the outermost columns
    are left to `store_edges`."""
    K: tl.constexpr = WIDTH // 2
    if CLAMP:
        inside = inside & (offset > -K) & (offset < K)
    else:
        inside = inside & (offset >= -K) & (offset <= K)
    if near:
        tl.store(base + owner * stride + offset + K, values.to(base.dtype.element_ty), mask=inside)


@triton.jit
def edge_sums(values, offset, WIDTH: tl.constexpr, AXIS: tl.constexpr):
    """Sums of the values left of the window, its first column included, and of the others right of
    it with its last column."""
    K: tl.constexpr = WIDTH // 2
    low = tl.sum(tl.where(offset <= -K, values, 0.0), AXIS)
    high = tl.sum(tl.where((offset >= K) & (offset > -K), values, 0.0), AXIS)
    return low, high


@triton.jit
def store_edges(base, owner, stride, n, low, high, WIDTH: tl.constexpr, LEVEL: tl.constexpr):
    """The outermost columns of a clamped window; a window of one column is both. At LEVEL the last
    alone."""
    kind = base.dtype.element_ty
    if WIDTH == 1:
        tl.store(base + owner * stride, (low + high).to(kind), mask=owner < n)
    else:
        if not LEVEL:
            tl.store(base + owner * stride, low.to(kind), mask=owner < n)
        tl.store(base + owner * stride + WIDTH - 1, high.to(kind), mask=owner < n)


@triton.jit
def first_near(i, QUERY: tl.constexpr, KEY: tl.constexpr):
    """The first of the keys in a row of `Added.summed`, that of the block of keys with i − k in it
    for the widest window: it may be below 0."""
    K: tl.constexpr = (QUERY if QUERY > KEY else KEY) // 2
    FROM: tl.constexpr = (K + BLOCK - 1) // BLOCK * BLOCK
    return (i + (FROM - K)) // BLOCK * BLOCK - FROM


@triton.jit
def scores(
    product, i, j, first_i, first_j, b, h, n, last, real, OFFSETS, QUERIES, KEYS, DENSE, ab, ah, an, bb, bh, bn, dense_b,
    HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr, HAS_DENSE: tl.constexpr, HAS_MASK: tl.constexpr,
    CLAMP: tl.constexpr, LEVEL: tl.constexpr, NEAR: tl.constexpr,
):  # fmt: skip
    """s of a tile of example b and head h from its scaled products q·k: MASKED at padding, −∞ from
    `last` on.

    NEAR: DENSE has what all windows add to so many keys of a row, from `first_near` on; elsewhere
        they add their outermost columns.
    """
    s, inside = product, (i < last) & (j < last)
    queries, keys = QUERIES + b * ab + h * ah - (1 if LEVEL else 0), KEYS + b * bb + h * bh
    if HAS_OFFSET:
        s += tl.load(OFFSETS + h * (2 * n - 1) + (j - i + n - 1), mask=inside, other=0.0).to(
            tl.float32
        )
    if QUERY > 0 and NEAR == 0:
        near = is_near(first_i, first_j, i.numel, j.numel, QUERY)
        s = add_window(s, queries, i, an, j - i, last, inside, near, QUERY, CLAMP, LEVEL)
    if KEY > 0 and NEAR == 0:
        near = is_near(first_i, first_j, i.numel, j.numel, KEY)
        s = add_window(s, keys, j, bn, i - j, last, inside, near, KEY, CLAMP, False)
    # Whole blocks of keys are read at once; what they have from `last` on is overwritten below.
    read = (i < last) & (j < tl.cdiv(last, BLOCK) * BLOCK)
    if NEAR > 0:
        first = first_near(i, QUERY, KEY)
        elsewhere = tl.zeros([1, 1], tl.float32)
        if CLAMP and QUERY > 0:
            elsewhere += beyond_window(queries, i, an, j - i, last, QUERY, LEVEL)
        if CLAMP and KEY > 0:
            elsewhere += beyond_window(keys, j, bn, i - j, last, KEY, False)
        row = DENSE + b * dense_b + h * n * NEAR + i * NEAR
        s += tl.load(
            row + (j - first),
            mask=read & (j >= first) & (j < first + NEAR),
            other=elsewhere.to(DENSE.dtype.element_ty),
        ).to(tl.float32)
    elif HAS_DENSE:
        s += tl.load(
            DENSE + b * dense_b + h * n * n + i * n + j,
            mask=read & (j < n),
            other=0.0,
        ).to(tl.float32)
    if HAS_MASK:
        s = tl.where(load_each(real, j, 1, last) != 0, s, MASKED)
    return tl.where(j < last, s, float("-inf"))


@triton.jit
def stirred(word, key, KEYED: tl.constexpr):
    """The words of rows as `relpos.model.dropout` mixes them with the key, a number or, if KEYED, a
    pointer to one."""
    if KEYED:
        key = tl.load(key)
    word = (word ^ key) * _FACTOR
    return word ^ ((word >> 32) & 0xFFFFFFFF)


@triton.jit
def kept_by_dropout(row_word, column_word, column, THRESHOLD: tl.constexpr):
    """True where an element is kept: 15 bits of a lane of the word that `dropout.dropped` makes for
    its four columns.

    In halves of 32 bits, because a GPU has no product of 64: with w = wₕ 2³² + wₗ, w · f is lo +
    2³² (hi(wₗ fₗ) + wₗ fₕ + wₕ fₗ).
    """
    low = row_word.to(tl.uint32) ^ column_word.to(tl.uint32)
    high = (row_word >> 32).to(tl.uint32) ^ (column_word >> 32).to(tl.uint32)
    upper = tl.umulhi(low, _LOW) + low * _HIGH + high * _LOW
    half = tl.where(column % 4 < 2, (low * _LOW) ^ upper, upper)
    return ((half >> ((column % 2) * 16).to(tl.uint32)) & 0x7FFF) >= THRESHOLD


@triton.jit
def tile_scores(
    product, i, j, first_i, first_j, b, h, n, last, real, OFFSETS, QUERIES, KEYS, DENSE, ab, ah, an, bb, bh, bn, dense_b,
    TOKEN_WORDS, HEAD_WORDS, COLUMN_WORDS, DRAWN,
    HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr, HAS_DENSE: tl.constexpr, HAS_MASK: tl.constexpr,
    CLAMP: tl.constexpr, THRESHOLD: tl.constexpr, KEYED: tl.constexpr, LEVEL: tl.constexpr, NEAR: tl.constexpr,
):  # fmt: skip
    """`scores`, and which of their probabilities dropout keeps."""
    s = scores(
        product, i, j, first_i, first_j, b, h, n, last, real, OFFSETS, QUERIES, KEYS, DENSE, ab, ah, an, bb, bh, bn, dense_b,
        HAS_OFFSET, QUERY, KEY, HAS_DENSE, HAS_MASK, CLAMP, LEVEL, NEAR,
    )  # fmt: skip
    kept = j < last
    if THRESHOLD > 0:
        word = load_each(TOKEN_WORDS + b * n, i, 1, last) ^ tl.load(HEAD_WORDS + h)
        column_word = load_each(COLUMN_WORDS, j // 4, 1, tl.cdiv(last, 4))
        kept = kept_by_dropout(stirred(word, DRAWN, KEYED), column_word, j, THRESHOLD)
    return s, kept


@triton.jit
def diagonal_sums(values, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums of a tile (COLUMNS keys, ROWS queries), no fewer keys than queries, along its diagonals:
    those of the offsets 0 … COLUMNS−1 from the tile's corner, and those of −COLUMNS … −1.

    Column i is turned up by i, so that diagonals become rows; what came round the end belongs to
    the offset COLUMNS lower.
    """
    shifted = tl.arange(0, COLUMNS)[:, None] + tl.arange(0, ROWS)[None, :]
    turned = tl.gather(values, shifted % COLUMNS, 0)
    return tl.sum(tl.where(shifted < COLUMNS, turned, 0.0), 1), tl.sum(
        tl.where(shifted < COLUMNS, 0.0, turned),
        1,
    )


@triton.jit
def differentiate(
    s, dp, i, j, last, top, total, delta, kept, value_grad,
    VALUE: tl.constexpr, CLAMP: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr, WHOLE: tl.constexpr,
    AXIS: tl.constexpr,
):  # fmt: skip
    """(P, dS): the probabilities that dropout keeps, not rescaled, and the gradient of the scores;
    `dp` is g_i·v_j.

    p = exp(s − top) / total   dp_ij = r_ij (g_i·v_j + g_i·u_{j−i})   ds_ij = p_ij (dp_ij − Σ_j p_ij dp_ij) = p_ij (dp_ij − g_i·y_i)

    with r_ij = 0 where dropped, else RESCALE. A tile that holds WHOLE rows, its keys along AXIS,
    has the sum itself, which is closer than `delta`, g_i·y_i: y was rounded.
    """
    # 0 where no score is one: in a row of padding alone, and behind the last token, where `top` is
    # ∞ and s may be any number.
    p = tl.exp(s - top) * tl.where(top > MASKED, 1.0 / total, 0.0)
    if VALUE > 0:
        dp = add_window(
            dp,
            value_grad,
            i,
            VALUE,
            j - i,
            last,
            (i < last) & (j < last),
            True,
            VALUE,
            CLAMP,
            False,
        )
    dropped = p
    if THRESHOLD > 0:
        dropped, dp = tl.where(kept, p, 0.0), tl.where(kept, dp, 0.0)
    if WHOLE:
        delta = tl.sum(p * dp, AXIS, keep_dims=True) * RESCALE
    return dropped, p * (dp * RESCALE - delta)
