"""The learned convolution kernels over the offsets −k..k, drawn as in Figure 2 of Chang et al.
2021, and what they do.

The kinds are told by fixed rules, and are those of Chang et al. 2021 (Figure 2) and Wennberg &
Henter 2021 (Section 5).

A kernel is what is added to the score at offsets −k … k; `spread` is its largest value less its
smallest. In this order:

    uniform    the spread is below log 2: no offset gets twice the weight of another
    both       the two largest values away from offset 0 stand at −1 and +1, a quarter of the spread above the third
    previous   the largest stands at −1, a quarter of the spread above the next
    next       … at +1
    avoiding   the smallest stands at −1, 0 or +1, a quarter of the spread below the next
    graded     the rank correlation with the offset is 0.8 or more, or −0.8 or less: attention leans to one side
    other      none of these
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor, nn

from relpos import style
from relpos.analysis.recording import Call, added, random_ids, record
from relpos.model.encoder import encoder_of
from relpos.model.position import Terms

_TERMS = ("offset", "query", "key")
_TOKENS = (8, 64)  # sequences × length over which the kernels made from tokens are averaged
FLAT = float(np.log(2))
LEAD = 0.25
RANK = 0.8
DRAWS = 20  # random orders of the weights of a kernel


@torch.no_grad()
def learned_kernels(
    model: nn.Module,
    k: int | None = None,
) -> dict[int, Float[Tensor, "heads width"]]:
    """A kernel of 2k+1 numbers for each head, by layer from 1: what the scheme adds to the score at
    each offset, all terms added.

    A key's kernel is reversed, so that the offset is always that of the attended token. Terms made
    from tokens are averaged over random ones, `paired` terms over pairs of them. Layers without
    kernels are left out. An offset that is hidden is NaN, as all above 0 in a causal network and
    all out of `reach` are, and one that no sequence of the network has. By default k is that of the
    scheme, or 8.
    """
    encoder = encoder_of(model)
    if not encoder.position.acts_on_scores:
        return {}
    ids = random_ids(encoder, _TOKENS[0], min(_TOKENS[1], encoder.shape.max_positions))
    half = int(getattr(encoder.position, "k", 8)) if k is None else k
    kernels = {}
    # By running it: kernels that are made from tokens exist only then.
    for call in record(encoder, ids):
        if any(getattr(call.terms, name) is not None for name in _TERMS):
            kernels[call.layer + 1] = _sum(call, half, encoder.position.paired)
    return kernels


def draw_kernels(model: nn.Module, path: str | Path) -> bool:
    """Writes the figure to `path` (its suffix sets the format). Returns whether it did: not where
    the scheme has no kernels."""
    kernels = learned_kernels(model)
    if not kernels:
        return False
    titles = [f"layer {layer}" for layer in kernels]
    title = "added to the score by each head"
    figure, _ = style.by_layer([*kernels.values()], titles, title)
    style.save(figure, Path(path))
    return True


def _sum(call: Call, half: int, paired: bool) -> Float[Tensor, "heads 2*{half}+1"]:
    """All terms added up."""
    # windows of several widths, and buckets, which several offsets may share
    terms = call.terms.by_offset()
    parts = []
    if terms.offset is not None:
        parts.append(_centre(terms.offset.float(), half))
    if paired and terms.query is not None:
        n = terms.query.shape[2]
        sums = added(Terms(query=terms.query, key=terms.key, columns=terms.columns), n)
        assert sums is not None
        means = [sums.float().diagonal(offset, -2, -1).mean((0, 2)) for offset in range(1 - n, n)]
        parts.append(_centre(torch.stack(means, 1), half))
        terms = replace(terms, query=None, key=None)
    if terms.query is not None:
        parts.append(_centre(terms.query.float().mean((0, 2)), half))
    if terms.key is not None:
        # Reversed: a key's kernel counts from the key to the query, see docs/architecture.md.
        parts.append(_centre(terms.key.float().mean((0, 2)), half).flip(-1))
    return call.seen(torch.stack(parts).sum(0), torch.arange(-half, half + 1))


def _centre(kernel: Float[Tensor, "heads odd"], half: int) -> Float[Tensor, "heads 2*{half}+1"]:
    """The 2·half+1 middle columns of a kernel; NaN where it is narrower."""
    missing = half - kernel.shape[-1] // 2  # negative where it is wider: `pad` then cuts off
    return nn.functional.pad(kernel.cpu(), (missing, missing), value=torch.nan)


def kind(kernel: ArrayLike) -> str:
    """The kind of a kernel (2k+1,), of k = 1 never `both`; offset o stands at o + k. NaN at either
    end is no offset."""
    values = np.asarray(kernel, dtype=np.float64)
    # A narrow scheme has no value at the outer offsets; the kind is that of the values that there
    # are.
    present = ~np.isnan(values)
    values, middle = values[present], int(present[: len(values) // 2].sum())
    spread = float(np.ptp(values))
    if spread < FLAT:
        return "uniform"
    # Offset 0 is left out of what follows for `both`: a token may look at itself besides its
    # neighbours.
    order = np.argsort(values)
    away = order[order != middle]
    if (
        len(away) > 2
        and set(away[-2:]) == {middle - 1, middle + 1}
        and values[away[-2]] - values[away[-3]] >= LEAD * spread
    ):
        return "both"
    if values[order[-1]] - values[order[-2]] >= LEAD * spread and abs(order[-1] - middle) == 1:
        if order[-1] < middle:
            return "previous"
        return "next"
    if values[order[1]] - values[order[0]] >= LEAD * spread and abs(order[0] - middle) <= 1:
        return "avoiding"
    from scipy.stats import spearmanr

    # By ranks: a slope need not be straight.
    if abs(float(spearmanr(np.arange(len(values)), values).statistic)) >= RANK:
        return "graded"
    return "other"


def kinds_by_chance(kernels: Float[np.ndarray, "kernels width"]) -> float:
    """The fraction of kernels that have a kind when the values of each are put into random order:
    what the rules find by chance. NaN stays where it is."""
    chance = np.random.default_rng(0)
    present = ~np.isnan(kernels)
    drawn: list[str] = []
    for _ in range(DRAWS):
        # Shuffled within a kernel: the values stay, so that only their places can make a kind.
        mixed = chance.permuted(kernels, axis=1)
        placed = kernels.copy()
        placed[present] = mixed[~np.isnan(mixed)]
        drawn += map(kind, placed)
    if not drawn:
        return 0.0
    return 1 - drawn.count("other") / len(drawn)
