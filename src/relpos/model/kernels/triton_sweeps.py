"""The single passes of `sweeps.py` on CUDA, in Triton: programs, and the functions that launch
them.

All tensors are rows of `width` numbers without gaps; arithmetic is in float32, and stored is the
number format of the tensors. A gradient that is summed over rows is first summed over those of a
tile, and the tiles' sums are added in a fixed order.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from relpos.model.dropout import Draw, rescale, threshold, unmixed
from relpos.model.kernels.triton_tiles import kept_by_dropout, stirred

KEEPS_ACTIVATION = True
TILE = 4096
"""Numbers that a program holds of each tensor. It holds one tile: a second one would begin to be
loaded when the first is done."""
MOST_ROWS = 1024
"""Rows that are summed in one go: a program of more would be waited for."""
MOST_PARTS = 1024
"""Programs that walk over rows and add up what they sum: some eight for each processor of a GPU,
whichever it is."""
COLUMNS = 8192
"""Logits that a program holds at a time."""


@triton.jit
def _dropped(y, word, column, columns, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr):
    kept = kept_by_dropout(
        word[:, None],
        tl.load(columns + column // 4)[None, :],
        column[None, :],
        THRESHOLD,
    )
    return tl.where(kept, y * RESCALE, 0.0)


@triton.jit
def _drop(
    X, Y, WORDS, COLUMN_WORDS, KEY, OUT, rows,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr,
    KEYED: tl.constexpr, ADDS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, PADDED)
    inside = (row[:, None] < rows) & (column[None, :] < WIDTH)
    at = row[:, None] * WIDTH + column[None, :]
    word = stirred(tl.load(WORDS + row, mask=row < rows, other=0), KEY, KEYED)
    y = tl.load(Y + at, mask=inside, other=0.0).to(tl.float32)
    y = _dropped(y, word, tl.minimum(column, WIDTH - 1), COLUMN_WORDS, THRESHOLD, RESCALE)
    if ADDS:
        y += tl.load(X + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(OUT + at, y.to(OUT.dtype.element_ty), mask=inside)


def drop(y: Tensor, draw: Draw, x: Tensor | None = None) -> Tensor:
    """drop(y), or x + drop(y), of tensors (..., width) without gaps."""
    out = torch.empty_like(y)
    rows = y.shape[:-1].numel()
    shape = _norm_shape(y.shape[-1], TILE, 4)
    dropout, constants = dropout_of(y.shape, draw, y)
    _drop[(triton.cdiv(rows, shape["ROWS"]),)](
        y if x is None else x,
        y,
        *dropout,
        out,
        rows,
        **shape,
        **constants,
        ADDS=x is not None,
    )
    return out


@triton.jit
def _norm_forward(
    X, Y, WEIGHT, BIAS, BESIDE, WORDS, COLUMN_WORDS, KEY, TOTAL, OUT, MEAN, RSTD, rows, eps,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr,
    KEYED: tl.constexpr, HAS_BESIDE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, PADDED)
    inside = (row[:, None] < rows) & (column[None, :] < WIDTH)
    at = row[:, None] * WIDTH + column[None, :]
    y = tl.load(Y + at, mask=inside, other=0.0).to(tl.float32)
    if HAS_BESIDE:
        y += tl.load(BESIDE + column, mask=column < WIDTH, other=0.0)[None, :]
    if THRESHOLD > 0:
        word = stirred(tl.load(WORDS + row, mask=row < rows, other=0), KEY, KEYED)
        y = _dropped(y, word, tl.minimum(column, WIDTH - 1), COLUMN_WORDS, THRESHOLD, RESCALE)
    stored = (tl.load(X + at, mask=inside, other=0.0).to(tl.float32) + y).to(TOTAL.dtype.element_ty)
    tl.store(TOTAL + at, stored, mask=inside)
    total = stored.to(tl.float32)
    mean = tl.sum(total, 1) / WIDTH
    centred = tl.where(inside, total - mean[:, None], 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / WIDTH + eps)
    weight = tl.load(WEIGHT + column, mask=column < WIDTH, other=0.0)
    out = (
        centred * rstd[:, None] * weight[None, :]
        + tl.load(BIAS + column, mask=column < WIDTH, other=0.0)[None, :]
    )
    tl.store(OUT + at, out.to(OUT.dtype.element_ty), mask=inside)
    tl.store(MEAN + row, mean, mask=row < rows)
    tl.store(RSTD + row, rstd, mask=row < rows)


@triton.jit
def _norm_backward(
    GRAD, MORE, TOTAL, MEAN, RSTD, WEIGHT, WORDS, COLUMN_WORDS, KEY, GRAD_X, GRAD_Y, SUMS, rows, parts,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, THRESHOLD: tl.constexpr, RESCALE: tl.constexpr,
    KEYED: tl.constexpr, HAS_BESIDE: tl.constexpr, HAS_MORE: tl.constexpr,
):  # fmt: skip
    """Every `parts`-th tile from its own on, so that there are few sums over rows, each of them
    added up in registers."""
    part = tl.program_id(0)
    column = tl.arange(0, PADDED)
    in_width = column < WIDTH
    weight = tl.load(WEIGHT + column, mask=in_width, other=0.0)[None, :]
    of_weight = tl.zeros([ROWS, PADDED], tl.float32)
    of_bias = tl.zeros([ROWS, PADDED], tl.float32)
    of_beside = tl.zeros([ROWS, PADDED], tl.float32)
    for start in range(part * ROWS, rows, parts * ROWS):
        row = tl.arange(0, ROWS).to(tl.int64) + start
        inside = (row[:, None] < rows) & in_width[None, :]
        at = row[:, None] * WIDTH + column[None, :]
        grad = tl.load(GRAD + at, mask=inside, other=0.0).to(tl.float32)
        if HAS_MORE:
            grad += tl.load(MORE + at, mask=inside, other=0.0).to(tl.float32)
        total = tl.load(TOTAL + at, mask=inside, other=0.0).to(tl.float32)
        mean, rstd = (
            tl.load(MEAN + row, mask=row < rows, other=0.0),
            tl.load(RSTD + row, mask=row < rows, other=0.0),
        )
        normal = tl.where(inside, (total - mean[:, None]) * rstd[:, None], 0.0)
        of_weight += grad * normal
        of_bias += grad
        grad = grad * weight
        dot = tl.sum(grad * normal, 1) / WIDTH
        sum = tl.sum(grad, 1) / WIDTH
        grad_x = rstd[:, None] * (grad - sum[:, None] - normal * dot[:, None])
        tl.store(GRAD_X + at, grad_x.to(GRAD_X.dtype.element_ty), mask=inside)
        if THRESHOLD > 0:
            word = stirred(tl.load(WORDS + row, mask=row < rows, other=0), KEY, KEYED)
            grad_x = _dropped(
                grad_x,
                word,
                tl.minimum(column, WIDTH - 1),
                COLUMN_WORDS,
                THRESHOLD,
                RESCALE,
            )
            tl.store(GRAD_Y + at, grad_x.to(GRAD_Y.dtype.element_ty), mask=inside)
        if HAS_BESIDE:
            of_beside += tl.where(inside, grad_x, 0.0)
    tl.store(SUMS + part * WIDTH + column, tl.sum(of_weight, 0), mask=in_width)
    tl.store(SUMS + (parts + part) * WIDTH + column, tl.sum(of_bias, 0), mask=in_width)
    if HAS_BESIDE:
        tl.store(SUMS + (2 * parts + part) * WIDTH + column, tl.sum(of_beside, 0), mask=in_width)


def _norm_shape(width: int, tile: int, warps: int) -> dict[str, int]:
    padded = triton.next_power_of_2(width)
    return {"WIDTH": width, "PADDED": padded, "ROWS": max(1, tile // padded), "num_warps": warps}


def norm_forward(
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    draw: Draw,
    beside: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """LN(x + drop(y + beside)), the sum, and its mean and 1 / deviation by row."""
    total, out, rows, shape = (
        torch.empty_like(x),
        torch.empty_like(x),
        x.shape[:-1].numel(),
        _norm_shape(x.shape[-1], TILE // 2, 4),
    )
    mean, rstd = x.new_empty(2, rows, dtype=torch.float32)
    dropout, constants = dropout_of(x.shape, draw, x)
    grid = (triton.cdiv(rows, shape["ROWS"]),)
    beside, constants["HAS_BESIDE"] = (weight, False) if beside is None else (beside.float(), True)
    _norm_forward[grid](
        x,
        y,
        weight,
        bias,
        beside,
        *dropout,
        total,
        out,
        mean,
        rstd,
        rows,
        eps,
        **shape,
        **constants,
    )
    return out, total, mean, rstd


def norm_backward(
    grad: Tensor,
    more: list[Tensor],
    total: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor,
    draw: Draw,
    beside: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """From the gradient of the result, the sum of `grad` and one that `more` may hold.

    Gradients of x and y; those of weight, bias and, if there was one, `beside`, (2 or 3, parts,
    width), still to be summed."""
    grad_x = torch.empty_like(total)
    # without dropout both gradients are the same numbers
    grad_y = torch.empty_like(total) if draw.rate > 0 else grad_x
    rows = mean.numel()
    shape = _norm_shape(total.shape[-1], TILE // 4, 2)
    parts = min(MOST_PARTS, triton.cdiv(rows, shape["ROWS"]))
    sums = weight.new_empty(3 if beside else 2, parts, len(weight))
    dropout, constants = dropout_of(total.shape, draw, total)
    constants |= {"HAS_BESIDE": beside, "HAS_MORE": bool(more)}
    _norm_backward[(parts,)](
        grad,
        *(more or [grad]),
        total,
        mean,
        rstd,
        weight,
        *dropout,
        grad_x,
        grad_y,
        sums,
        rows,
        parts,
        **shape,
        **constants,
    )
    return grad_x, grad_y, sums


@triton.jit
def _sum_rows(
    X,
    OUT,
    rows,
    rows_of_part,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
):
    group = tl.program_id(2).to(tl.int64)
    part = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = part * rows_of_part
    sums = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, rows_of_part, ROWS):
        row = first + start + tl.arange(0, ROWS)
        inside = (row[:, None] < tl.minimum(first + rows_of_part, rows)) & (column[None, :] < WIDTH)
        sums += tl.load(
            X + (group * rows + row[:, None]) * WIDTH + column[None, :],
            mask=inside,
            other=0.0,
        ).to(tl.float32)
    at = OUT + (group * tl.num_programs(1) + part) * WIDTH + column
    tl.store(at, tl.sum(sums, 0).to(OUT.dtype.element_ty), mask=column < WIDTH)


def sum_rows(x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """(groups, rows, width) → (groups, width), summed in float32 in an order that depends on the
    number of rows alone."""
    groups, rows, width = x.shape
    many = rows > MOST_ROWS
    block = min(64 if many else 16, triton.next_power_of_2(width))
    rows_of_part = max(2 * TILE // block, triton.cdiv(rows, MOST_ROWS)) if many else rows
    # few programs, that wait for memory once
    at_once = TILE // block if many else triton.next_power_of_2(rows)
    parts = triton.cdiv(rows, rows_of_part)
    out = x.new_empty(groups, parts, width, dtype=torch.float32 if many else dtype)
    _sum_rows[triton.cdiv(width, block), parts, groups](
        x,
        out,
        rows,
        rows_of_part,
        width,
        block,
        at_once,
        num_warps=8 if at_once * block > TILE else 4,
    )
    return sum_rows(out, dtype) if many else out[:, 0]


def dropout_of(
    shape: torch.Size,
    draw: Draw,
    like: Tensor,
) -> tuple[tuple[Tensor | int, ...], dict[str, int | float | bool]]:
    """What a program draws the masks of a tensor of this shape from: words of rows and of columns,
    and the key; its constants."""
    if draw.rate == 0:
        return (like, like, 0), {"THRESHOLD": 0, "RESCALE": 1.0, "KEYED": False}
    constants = {
        "THRESHOLD": threshold(draw.rate),
        "RESCALE": rescale(draw.rate),
        "KEYED": isinstance(draw.key, Tensor),
    }
    return (*unmixed(shape, draw, like.device), draw.key), constants


@triton.jit
def _normal(x):
    """Φ(x), the normal distribution, and e^(−x²/2) on the way. Abramowitz and Stegun 7.1.26: off by
    at most 1.5e-7, and as exact relative to it where x is negative."""
    size = tl.abs(x) * 0.7071067811865476
    t = 1.0 / (1.0 + 0.3275911 * size)
    density = tl.exp(-size * size)
    series = 0.254829592 + t * (
        -0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))
    )
    tail = 0.5 * density * t * series
    return tl.where(x < 0.0, tail, 1.0 - tail), density


@triton.jit
def _gelu_forward(
    WIDE,
    BIAS,
    ACTIVE,
    rows,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
):
    row, column = (
        tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS),
        tl.program_id(1) * BLOCK + tl.arange(0, BLOCK),
    )
    inside = (row[:, None] < rows) & (column[None, :] < WIDTH)
    at = row[:, None] * WIDTH + column[None, :]
    x = tl.load(WIDE + at, mask=inside, other=0.0).to(tl.float32)
    x += tl.load(BIAS + column, mask=column < WIDTH, other=0.0)[None, :]
    below, _ = _normal(x)
    tl.store(ACTIVE + at, (x * below).to(ACTIVE.dtype.element_ty), mask=inside)


@triton.jit
def _gelu_backward(
    WIDE,
    BIAS,
    GRAD,
    SUMS,
    rows,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
):
    row, column = (
        tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS),
        tl.program_id(1) * BLOCK + tl.arange(0, BLOCK),
    )
    inside = (row[:, None] < rows) & (column[None, :] < WIDTH)
    at = row[:, None] * WIDTH + column[None, :]
    x = tl.load(WIDE + at, mask=inside, other=0.0).to(tl.float32)
    x += tl.load(BIAS + column, mask=column < WIDTH, other=0.0)[None, :]
    below, density = _normal(x)
    grad = tl.load(GRAD + at, mask=inside, other=0.0).to(tl.float32) * (
        below + x * density * 0.3989422804014327
    )
    tl.store(GRAD + at, grad.to(GRAD.dtype.element_ty), mask=inside)
    tl.store(SUMS + tl.program_id(0) * WIDTH + column, tl.sum(grad, 0), mask=column < WIDTH)


def _gelu_shape(width: int) -> dict[str, int]:
    # the rows of a tile are many, so that there are few sums to add
    block = min(128, triton.next_power_of_2(width))
    return {"WIDTH": width, "BLOCK": block, "ROWS": TILE // block}


def gelu_forward(wide: Tensor, bias: Tensor) -> Tensor:
    """GELU(wide + bias), (rows, width)."""
    active, (rows, width), shape = torch.empty_like(wide), wide.shape, _gelu_shape(wide.shape[1])
    _gelu_forward[triton.cdiv(rows, shape["ROWS"]), triton.cdiv(width, shape["BLOCK"])](
        wide,
        bias,
        active,
        rows,
        **shape,
    )
    return active


def gelu_backward(
    wide: Tensor,
    bias: Tensor,
    grad: Tensor,
    active: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of `wide`, written over `grad`; the activation; the gradient of the bias,
    (parts, width), still to be summed."""
    (rows, width), shape = wide.shape, _gelu_shape(wide.shape[1])
    parts = triton.cdiv(rows, shape["ROWS"])
    sums = bias.new_empty(parts, width)
    _gelu_backward[parts, triton.cdiv(width, shape["BLOCK"])](wide, bias, grad, sums, rows, **shape)
    return grad, active, sums


@triton.jit
def _cross_entropy(
    LOGITS, TARGET, COUNTS, LOSS, HIT, width, COUNTED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Two walks over a row, of which the second finds it in the cache; none over a row that does
    not count."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(TARGET + row)
    logits = LOGITS + row * width
    column = tl.arange(0, BLOCK)
    count = 1.0
    if COUNTED:
        count = tl.load(COUNTS + row)
    counted = tl.where(count == 0.0, 0, width)
    answer = tl.load(logits + target).to(tl.float32)
    highest, total = answer, tl.zeros([BLOCK], tl.float32)
    for start in range(0, counted, BLOCK):
        at = start + column
        x = tl.load(logits + at, mask=at < counted, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(highest, tl.max(x, 0))
        total = total * tl.exp(highest - higher) + tl.exp(x - higher)
        highest = higher
    whole = tl.sum(total, 0)
    tl.debug_barrier()  # the answer is read by all before it is written over
    tl.store(LOSS + row, tl.where(counted > 0, count * (highest + tl.log(whole) - answer), 0.0))
    tl.store(HIT + row, tl.where((counted > 0) & (answer == highest), count, 0.0))
    for start in range(0, width, BLOCK):
        at = start + column
        x = tl.load(logits + at, mask=at < counted, other=0.0).to(tl.float32)
        p = tl.exp(x - highest) * (1.0 / whole)
        # Subtracted in float32: bfloat16 has no number between 0.996 and 1, so that p − 1 of a
        # likely target would be 0.
        p = tl.where(at < counted, count * (p - tl.where(at == target, 1.0, 0.0)), 0.0)
        tl.store(logits + at, p.to(LOGITS.dtype.element_ty), mask=at < width)


def cross_entropy_(
    logits: Tensor,
    _bias: None,
    target: Tensor,
    counts: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See `sweeps.cross_entropy_`."""
    losses, hits = logits.new_empty(2, len(logits), dtype=torch.float32)
    width = logits.shape[1]
    block = min(COLUMNS, triton.next_power_of_2(logits.shape[1]))
    _cross_entropy[(len(logits),)](
        logits,
        target,
        target if counts is None else counts,
        losses,
        hits,
        width,
        counts is not None,
        block,
        num_warps=8,
    )
    return losses, hits


@triton.jit
def _taps(
    X,
    WEIGHT,
    BIAS,
    OUT,
    n,
    WIDTH: tl.constexpr,
    TAPS: tl.constexpr,
    BIASED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    sequence = tl.program_id(0).to(tl.int64)
    column = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    place = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    in_width = column < WIDTH
    y = tl.zeros([ROWS, BLOCK], tl.float32)
    if BIASED:
        y += tl.load(BIAS + column, mask=in_width, other=0.0).to(tl.float32)[None, :]
    for tap in tl.static_range(TAPS):
        read = place + tap - TAPS // 2
        inside = (read >= 0)[:, None] & (read < n)[:, None] & in_width[None, :]
        x = tl.load(
            X + (sequence * n + read[:, None]) * WIDTH + column[None, :],
            mask=inside,
            other=0.0,
        ).to(tl.float32)
        y += (
            x
            * tl.load(WEIGHT + column * TAPS + tap, mask=in_width, other=0.0).to(tl.float32)[
                None,
                :,
            ]
        )
    at = (sequence * n + place[:, None]) * WIDTH + column[None, :]
    tl.store(OUT + at, y.to(OUT.dtype.element_ty), mask=(place < n)[:, None] & in_width[None, :])


@triton.jit
def _grad_taps(
    X, GRAD, SUMS, n, parts, WIDTH: tl.constexpr, TAPS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    sequence = tl.program_id(0).to(tl.int64)
    column = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    place = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    in_width = column < WIDTH
    inside = (place < n)[:, None] & in_width[None, :]
    grad = tl.load(
        GRAD + (sequence * n + place[:, None]) * WIDTH + column[None, :],
        mask=inside,
        other=0.0,
    ).to(tl.float32)
    sums = SUMS + (sequence * parts + tl.program_id(1)) * TAPS * WIDTH + column
    for tap in tl.static_range(TAPS):
        read = place + tap - TAPS // 2
        x = tl.load(
            X + (sequence * n + read[:, None]) * WIDTH + column[None, :],
            mask=inside & ((read >= 0) & (read < n))[:, None],
            other=0.0,
        ).to(tl.float32)
        tl.store(sums + tap * WIDTH, tl.sum(x * grad, 0), mask=in_width)


def taps(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """y_i = Σ_r weight[:, r + k] x_{i+r} + bias for r = −k..k, x (batch, n, channels), weight
    (channels, 2k+1)."""
    out, (batch, n, width), block = (
        torch.empty_like(x),
        x.shape,
        min(128, triton.next_power_of_2(x.shape[2])),
    )
    rows = TILE // block // 2
    grid = batch, triton.cdiv(n, rows), triton.cdiv(width, block)
    weight = weight.contiguous()
    _taps[grid](
        x,
        weight,
        weight if bias is None else bias,
        out,
        n,
        width,
        weight.shape[1],
        bias is not None,
        rows,
        block,
    )
    return out


def grad_taps(x: Tensor, grad: Tensor, taps: int) -> Tensor:
    """See `sweeps_cpu.grad_taps`."""
    (batch, n, width), block = x.shape, min(64, triton.next_power_of_2(x.shape[2]))
    rows = TILE // block
    parts = triton.cdiv(n, rows)
    sums = x.new_empty(batch * parts, taps * width, dtype=torch.float32)
    _grad_taps[batch, parts, triton.cdiv(width, block)](
        x,
        grad,
        sums,
        n,
        parts,
        width,
        taps,
        rows,
        block,
    )
    return sum_rows(sums[None])[0].view(taps, width).t().to(x.dtype).contiguous()
