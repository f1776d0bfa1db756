"""95 % bootstrap intervals over examples, for figures that are ratios of sums and for accuracies that are pooled over groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Interval = list[float]
"""[low, high]"""
RESAMPLES = 2_000
SEED = 0
_BOUNDS = (0.025, 0.975)


def ratio_interval(numerators: Floats, denominators: Floats) -> Interval:
    """Of Σ numerators / Σ denominators, both (examples,): examples are drawn with replacement."""
    chance = np.random.default_rng(SEED)
    n = len(numerators)
    ratios = []
    for _ in range(RESAMPLES):
        drawn = np.bincount(chance.integers(n, size=n), minlength=n)
        ratios.append(float(drawn @ numerators) / max(float(drawn @ denominators), 1e-300))
    return [float(bound) for bound in np.quantile(ratios, _BOUNDS)]


def pooled_interval(groups: Sequence[Floats]) -> Interval | None:
    """Of the mean over all values of all groups: values are drawn with replacement within their group, whose sizes stay.

    The values are few different ones (0, ½, 1), so that a draw is one multinomial count a group. None where there is no value.
    """
    chance = np.random.default_rng(SEED)
    total, count = np.zeros(RESAMPLES), 0
    for values in groups:
        if not len(values):
            continue
        kinds, times = np.unique(values, return_counts=True)
        total += chance.multinomial(len(values), times / len(values), RESAMPLES) @ kinds
        count += len(values)
    return [float(bound) for bound in np.quantile(total / count, _BOUNDS)] if count else None
