"""What a head's convolution kernel does, by fixed rules.

The kinds are those of Chang et al. 2021 (Figure 2) and Wennberg & Henter 2021 (Section 5).

A kernel is what is added to the score at offsets −k … k; `spread` is its largest value less its smallest. In this order:

    uniform    the spread is below log 2: no offset gets twice the weight of another
    both       the two largest values away from offset 0 stand at −1 and +1, a quarter of the spread above the third
    previous   the largest stands at −1, a quarter of the spread above the next
    next       … at +1
    avoiding   the smallest stands at −1, 0 or +1, a quarter of the spread below the next
    graded     the rank correlation with the offset is 0.8 or more, or −0.8 or less: attention leans to one side
    other      none of these
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

KINDS = ("uniform", "both", "previous", "next", "avoiding", "graded", "other")
FLAT = float(np.log(2))
LEAD = 0.25
RANK = 0.8


def kind(kernel: ArrayLike) -> str:
    """One of `KINDS`, for a kernel (2k+1,), of k = 1 never `both`; offset o stands at o + k. NaN at both ends is no offset."""
    values = np.asarray(kernel, dtype=np.float64)
    # A scheme narrower than the others has no value at the outer offsets, which says nothing of those that it has.
    values = values[~np.isnan(values)]
    middle = len(values) // 2
    spread = float(np.ptp(values))
    if spread < FLAT:
        return "uniform"
    # Offset 0 is left out of what follows for `both`: a token may look at itself besides its neighbours.
    order = np.argsort(values)
    away = order[order != middle]
    if len(away) > 2 and set(away[-2:]) == {middle - 1, middle + 1} and values[away[-2]] - values[away[-3]] >= LEAD * spread:
        return "both"
    if values[order[-1]] - values[order[-2]] >= LEAD * spread and abs(order[-1] - middle) == 1:
        return "previous" if order[-1] < middle else "next"
    if values[order[1]] - values[order[0]] >= LEAD * spread and abs(order[0] - middle) <= 1:
        return "avoiding"
    from scipy.stats import spearmanr

    # By ranks: a slope need not be straight.
    return "graded" if abs(float(spearmanr(np.arange(len(values)), values).statistic)) >= RANK else "other"


@dataclass(frozen=True)
class Tally:
    """Kinds of some kernels.

    Args:
        counts: how many are of each kind.
        shaped: (kernels, width): those that are not uniform. A uniform kernel stays uniform in any order of its weights.
        chance: fraction of these that have a kind when each one's values are put into random order: what the rules find by chance.
    """

    counts: Counter[str]
    shaped: Float[np.ndarray, "kernels width"]
    chance: float

    @property
    def typed(self) -> int:
        """Kernels that have a kind besides `uniform`."""
        return len(self.shaped) - self.counts["other"]


def tally(kernels: Float[np.ndarray, "kernels width"], draws: int = 20) -> Tally:
    """The kinds of some kernels, and what would be found by chance."""
    kinds = [kind(kernel) for kernel in kernels]
    shaped = kernels[[name != "uniform" for name in kinds]]
    chance = np.random.default_rng(0)
    # Shuffled within a kernel: the values stay, so that only their places can make a kind.
    drawn = [kind(kernel) for _ in range(draws) for kernel in chance.permuted(shaped, axis=1)]
    return Tally(Counter(kinds), shaped, 1 - drawn.count("other") / len(drawn) if drawn else 0.0)
