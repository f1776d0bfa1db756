"""What the Triton programs share: one tile of scores, of dropout and of their gradients.

A tile has rows i (queries) and columns j (keys) of one head of one example. Pointers to a term have been moved to that head and
example already. Sums are in float32; `DOT` is the number format in which matrices are multiplied.
"""

import triton
import triton.language as tl

MASKED = tl.constexpr(-1e30)  # the score of a padding token, as in `eager`
LOWEST = tl.constexpr(-3e38)  # below all scores
_FACTOR = tl.constexpr(-0x61C8_8646_80B5_83EB)  # as in `relpos.model.dropout`


@triton.jit
def load_rows(base, rows, stride, n, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """(rows, PADDED) of a matrix of n rows, 0 beyond them and beyond WIDTH."""
    column = tl.arange(0, PADDED)[None, :]
    return tl.load(base + rows[:, None] * stride + column, mask=(rows[:, None] < n) & (column < WIDTH), other=0.0)


@triton.jit
def store_rows(base, rows, stride, n, values, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    """The adjoint of `load_rows`, in the number format of the pointer."""
    column = tl.arange(0, PADDED)[None, :]
    inside = (rows[:, None] < n) & (column < WIDTH)
    tl.store(base + rows[:, None] * stride + column, values.to(base.dtype.element_ty), mask=inside)


@triton.jit
def last_real(real, n, HAS_MASK: tl.constexpr, ALL: tl.constexpr):
    """One more than the place of the last real key; keys beyond it need no work. n for a sequence of padding alone."""
    last = n
    if HAS_MASK:
        place = tl.arange(0, ALL)
        kept = tl.load(real + place, mask=place < n, other=0) != 0
        last = tl.max(tl.where(kept, place + 1, 0), 0)
        last = tl.where(last == 0, n, last)
    return last


@triton.jit
def read_window(base, owner, offset, inside, WIDTH: tl.constexpr, CLAMP: tl.constexpr):
    """The convolution kernel of each owner at these offsets, (rows, columns) in float32."""
    K: tl.constexpr = WIDTH // 2
    column = tl.minimum(tl.maximum(offset, -K), K) + K
    if not CLAMP:
        inside = inside & (offset >= -K) & (offset <= K)
    return tl.load(base + owner * WIDTH + column, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def write_window(base, owner, offset, inside, values, WIDTH: tl.constexpr, CLAMP: tl.constexpr):
    """Stores the values on the band: each has an address of its own. Clamped, the outermost columns are left to `store_edges`."""
    K: tl.constexpr = WIDTH // 2
    if CLAMP:
        inside = inside & (offset > -K) & (offset < K)
    else:
        inside = inside & (offset >= -K) & (offset <= K)
    tl.store(base + owner * WIDTH + offset + K, values, mask=inside)


@triton.jit
def edge_sums(values, offset, WIDTH: tl.constexpr, AXIS: tl.constexpr):
    """Sums of the values left of the window, its first column included, and of the others right of it with its last column."""
    K: tl.constexpr = WIDTH // 2
    low = tl.sum(tl.where(offset <= -K, values, 0.0), AXIS)
    high = tl.sum(tl.where((offset >= K) & (offset > -K), values, 0.0), AXIS)
    return low, high


@triton.jit
def store_edges(base, owner, n, low, high, WIDTH: tl.constexpr):
    """The outermost columns of a clamped window; a window of one column is both."""
    if WIDTH == 1:
        tl.store(base + owner, low + high, mask=owner < n)
    else:
        tl.store(base + owner * WIDTH, low, mask=owner < n)
        tl.store(base + owner * WIDTH + WIDTH - 1, high, mask=owner < n)


@triton.jit
def scores(
    q, k, i, j, n, real, offset_term, query_term, key_term, dense_term,
    CONTENT: tl.constexpr, HAS_OFFSET: tl.constexpr, QUERY: tl.constexpr, KEY: tl.constexpr, HAS_DENSE: tl.constexpr,
    HAS_MASK: tl.constexpr, CLAMP: tl.constexpr,
):  # fmt: skip
    """s of a tile: MASKED at padding, −∞ beyond the sequence; and where it is a score: inside, not padding."""
    row, column = i[:, None], j[None, :]
    inside = (row < n) & (column < n)
    if CONTENT:
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
    else:
        s = tl.zeros([i.shape[0], j.shape[0]], dtype=tl.float32)
    if HAS_OFFSET:
        s += tl.load(offset_term + (column - row + n - 1), mask=inside, other=0.0).to(tl.float32)
    if QUERY > 0:
        s += read_window(query_term, row, column - row, inside, QUERY, CLAMP)
    if KEY > 0:
        s += read_window(key_term, column, row - column, inside, KEY, CLAMP)
    if HAS_DENSE:
        s += tl.load(dense_term + row * n + column, mask=inside, other=0.0).to(tl.float32)
    scored = inside
    if HAS_MASK:
        kept = tl.load(real + column, mask=column < n, other=0) != 0
        scored = scored & kept
        s = tl.where(kept, s, MASKED)
    return tl.where(column < n, s, float("-inf")), scored


@triton.jit
def stirred(word, key, KEYED: tl.constexpr):
    """The words of rows as `relpos.model.dropout` mixes them with the key, a number or, if KEYED, a pointer to one."""
    if KEYED:
        key = tl.load(key)
    word = (word ^ key) * _FACTOR
    return word ^ ((word >> 32) & 0xFFFFFFFF)


@triton.jit
def kept_by_dropout(row_word, column_word, column, THRESHOLD: tl.constexpr):
    """True where an element is kept: 15 bits of a lane of the word that `dropout.dropped` makes for its four columns."""
    word = (row_word ^ column_word) * _FACTOR
    word = word ^ ((word >> 32) & 0xFFFFFFFF)
    return ((word >> ((column % 4) * 16)) & 0x7FFF) >= THRESHOLD


@triton.jit
def differentiate(
    s, scored, top, total, v, grad, y, i, j, n, row_words, column_words, value_grad,
    VALUE: tl.constexpr, CLAMP: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr, DOT: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """(P, dS): the probabilities after dropout, and the gradient of the scores.

    p = exp(s − top) / total   dp_ij = r_ij (g_i·v_j + g_i·u_{j−i})   ds_ij = p_ij (dp_ij − Σ_j p_ij dp_ij) = p_ij (dp_ij − g_i·y_i)

    with r_ij = 0 where dropped, else the rescaling. A tile that is WHOLE rows has the sum itself, which is closer: y was rounded.
    """
    inside = (i[:, None] < n) & (j[None, :] < n)
    p = tl.where(inside, tl.exp(s - top[:, None]) / total[:, None], 0.0)
    dp = tl.dot(grad.to(DOT), tl.trans(v.to(DOT)), input_precision="ieee")
    if VALUE > 0:
        dp += read_window(value_grad, i[:, None], j[None, :] - i[:, None], inside, VALUE, CLAMP)
    dropped = p
    if THRESHOLD > 0:
        kept = kept_by_dropout(row_words, column_words, i, j, n, THRESHOLD)
        dropped = tl.where(kept, p * RESCALE, 0.0)
        dp = tl.where(kept, dp * RESCALE, 0.0)
    if WHOLE:
        mean = tl.sum(p * dp, 1)
    else:
        mean = tl.sum(grad.to(tl.float32) * y.to(tl.float32), 1)
    return dropped, tl.where(scored, p * (dp - mean[:, None]), 0.0)


@triton.jit
def diagonal_sums(values, BLOCK: tl.constexpr):
    """Sums of a (BLOCK, BLOCK) tile along its diagonals: (offsets 0 … BLOCK−1, offsets −BLOCK … −1).

    Row i is turned left by i, so that diagonals become columns; what came round the end belongs to the offset BLOCK lower.
    """
    row = tl.arange(0, BLOCK)[:, None]
    shifted = tl.arange(0, BLOCK)[None, :] + row
    turned = tl.gather(values, shifted % BLOCK, 1)
    return tl.sum(tl.where(shifted < BLOCK, turned, 0.0), 0), tl.sum(tl.where(shifted < BLOCK, 0.0, turned), 0)
