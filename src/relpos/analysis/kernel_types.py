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
from collections.abc import Iterable

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


def counted(kernels: Iterable[ArrayLike]) -> Counter[str]:
    """How many kernels are of each kind."""
    return Counter(kind(kernel) for kernel in kernels)


def by_chance(kernels: Float[np.ndarray, "kernels width"], draws: int = 20) -> float:
    """Share of kernels that are not `other` when each one's values are put into random order: what the rules find by chance."""
    chance = np.random.default_rng(0)
    kinds = Counter[str]()
    for _ in range(draws):
        # Shuffled within a kernel: the values stay, so that only their places can make a kind.
        kinds += counted(chance.permuted(kernels, axis=1))
    return 1 - kinds["other"] / max(1, kinds.total())
