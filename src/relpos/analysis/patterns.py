"""The score pattern of a position scheme: what it adds to s_ij, by (i, j) and by the offset j −
i."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos import style
from relpos.analysis.recording import Call, added, random_ids, record
from relpos.errors import RelposError
from relpos.model.encoder import Encoder
from relpos.model.position import Scheme
from relpos.model.shape import Heads

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

SEQUENCES = 16  # of random tokens, over which what depends on tokens is averaged
TERMS = "T of one sequence of random tokens"
TURNED = "q·k with turned queries and keys, less q·k without"
ROWS = "products of the rows added to the embeddings"


@dataclass(frozen=True)
class Pattern:
    """What a scheme adds to the scores.

    Args:
        source: what the numbers are, in words.
        matrix: of one sequence; NaN where a token is not seen.
        mean: by offset 1−n … n−1, over `SEQUENCES` sequences.
        low: the 10th percentile.
        high: the 90th percentile.
    """

    source: str
    matrix: Float[Tensor, "heads n n"]
    mean: Float[Tensor, "heads 2*n-1"]
    low: Float[Tensor, "heads 2*n-1"]
    high: Float[Tensor, "heads 2*n-1"]


@torch.no_grad()
def pattern(
    encoder: Encoder,
    layer: int = 0,
    length: int = 64,
    trained: bool = True,
) -> Pattern | None:
    """What the scheme adds to the scores of one pass.

    If it adds terms, T for random tokens. If it turns queries and keys, the difference that this
    makes to their product; q and k are the layer's means over random tokens, or, with `trained`
    false, vectors of ones. If it does neither, the products of the rows that it adds to the
    embeddings: mapped by the first layer's queries and keys, or, with `trained` false, not mapped
        at all, over √embedding. None where it does nothing, or nothing that reaches a score.

    Raises:
        RelposError: there is no such layer.
    """
    position = encoder.position
    if not 0 <= layer < encoder.shape.layers:
        raise RelposError(f"layer={layer + 1}: there are {encoder.shape.layers}")
    ids = random_ids(encoder, SEQUENCES, length)
    n = ids.shape[1]
    call = next((call for call in record(encoder, ids) if call.layer == layer), None)
    if call is None:
        return None
    parts = {TERMS: added(call.terms, n), TURNED: _turned(position, call, n, trained)}
    if filled := {source: part for source, part in parts.items() if part is not None}:
        return _summarised(reduce(torch.add, filled.values()), call, " + ".join(filled))
    rows = position.embed(n)
    if rows is None or call.heads is None or position.scale is None:
        return None
    if trained:
        return _summarised(_embedded(encoder, n, position.scale), call, ROWS)
    rows = rows.float().cpu()
    return _summarised((rows @ rows.t() * rows.shape[1] ** -0.5)[None, None], call, ROWS)


def reveal(position: nn.Module) -> bool:
    """Fills tables that are zero at the start from N(0, 0.02²), so that there is something to see;
    True where there were any."""
    # Vectors are left alone: a bias of zero is no table that waits for training.
    zeros = [table for table in position.parameters() if table.dim() > 1 and not table.any()]
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for table in zeros:
            table.copy_(0.02 * torch.randn(table.shape, generator=generator))
    return bool(zeros)


def draw_pattern(drawn: Pattern, title: str, heads: int = 4, panel: str = "head") -> object:
    """A column for each head (or what `panel` says), `heads` of them at most: the matrix, and below
    it the pattern by offset."""
    shown = min(heads, len(drawn.matrix))
    figure, grid = style.canvas(max(5.4, 2.9 * shown), 5.2, 2, shown, height_ratios=(1.5, 1))
    for head, (above, below) in enumerate(grid.T):
        figure.colorbar(panels(above, below, drawn, head), ax=above, shrink=0.8)
        above.set_title(f"{panel} {head + 1}", fontsize=10)
        above.set_xlabel("attended token j")
        below.set_xlabel("offset j − i")
    grid[0][0].set_ylabel("query i")
    grid[1][0].set_ylabel("added to the score")
    figure.suptitle(f"{title}\n{drawn.source}", fontsize=10)
    return figure


def _turned(
    position: Scheme,
    call: Call,
    n: int,
    trained: bool,
) -> Float[Tensor, "batch heads {n} {n}"] | None:
    """What turning adds to q·k, which may depend on the sequence; None where queries and keys are
    left as they are."""
    if call.heads is None or position.scale is None:
        return None
    # The same vectors at all places, so that only the rotation makes a difference.
    if trained:
        vectors = (x.mean((0, 2), keepdim=True) for x in call.heads)
    else:
        vectors = (torch.ones_like(x[:1, :, :1]) for x in call.heads)
    q, k = (x.expand(len(call.heads[0]), -1, n, -1) for x in vectors)
    turned = call.turned(position, (q, k))
    if turned is None:
        return None
    after, before = (position.split(call.layer, *pair, q)[:2] for pair in (turned, (q, k)))
    return _products(*after, position.scale) - _products(*before, position.scale)


def _embedded(encoder: Encoder, n: int, scale: float) -> Float[Tensor, "1 heads {n} {n}"]:
    """Expected products of the first layer's queries and keys of independent tokens, less their
    mean."""
    # the same token everywhere, so that only the position differs
    tokens = random_ids(encoder, SEQUENCES, 1).expand(-1, n)
    heads = record(encoder, tokens)[0].heads
    assert heads is not None
    q, k = (x.mean(0, keepdim=True) for x in heads)
    product = _products(q, k, scale)
    # A constant cancels in the softmax.
    return product - product.mean((-1, -2), keepdim=True)


def _products(q: Heads, k: Heads, scale: float) -> Float[Tensor, "batch heads n n"]:
    return (scale * q @ k.transpose(-1, -2)).cpu()


def _summarised(scores: Float[Tensor, "batch heads n n"], call: Call, source: str) -> Pattern:
    scores, place = scores.detach().float(), torch.arange(scores.shape[-1])
    scores = call.seen(scores, place - place[:, None])
    n = len(place)
    # (H, B·(n − |o|))
    diagonals = [
        scores.diagonal(offset, -2, -1).transpose(0, 1).flatten(1) for offset in range(1 - n, n)
    ]
    mean = torch.stack([x.mean(1) for x in diagonals], 1)
    # Not the extremes, which grow with the number of tokens.
    tenths = torch.tensor([0.1, 0.9])
    low, high = torch.stack([x.quantile(tenths, 1) for x in diagonals], 2)  # (2, H, 2n−1)
    return Pattern(source, scores[0], mean, low, high)


def panels(above: Axes, below: Axes, drawn: Pattern, head: int) -> AxesImage:
    """Draws the matrix of a head, which is returned, and below it the curve."""
    matrix, mean, low, high = (
        part[head].numpy() for part in (drawn.matrix, drawn.mean, drawn.low, drawn.high)
    )
    offsets = range(1 - len(matrix), len(matrix))
    below.fill_between(offsets, low, high, color="0.85", linewidth=0)
    below.plot(offsets, mean, linewidth=1, color="0.15")
    below.axvline(0, color="0.7", linewidth=0.5, zorder=0)
    below.spines[["top", "right"]].set_visible(False)
    return style.matrix(above, matrix, covered=1)
