"""95 % intervals: by drawing examples, seeds, or networks and examples anew; and of accuracies that
are pooled over groups."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Interval = list[float]
"""[low, high], as a file of results has it."""
Ends = tuple[float, float]
"""(low, high)"""
RESAMPLES = 2_000
SEED = 0
_BOUNDS = (0.025, 0.975)


def ratio_interval(numerators: Floats, denominators: Floats) -> Interval:
    """Interval of Σ numerators / Σ denominators, both (examples,): examples are drawn with
    replacement."""
    chance = np.random.default_rng(SEED)
    n = len(numerators)
    ratios = []
    for _ in range(RESAMPLES):
        # How often each was drawn, in place of copies: two products instead of two long sums.
        drawn = np.bincount(chance.integers(n, size=n), minlength=n)
        # A draw may hold no predicted token at all: numerator and denominator are then zero.
        ratios.append(float(drawn @ numerators) / max(float(drawn @ denominators), 1e-300))
    return np.quantile(ratios, _BOUNDS).tolist()


def pooled_interval(groups: Sequence[Floats]) -> Interval | None:
    """Interval of the mean over all values of all groups, for other values of the same groups:
    Wilson's intervals of the groups, combined by MOVER (Zou & Donner 2008): with weights w = group
    size / all, low = mean − √Σ w²(p − low of the group)², high alike.

    A bootstrap within groups would have no width where each group is all right or all wrong, as if
    a few dozen pairs were proof.

    Args:
        groups: values 1, 0, or between them for a tie. A pair that is tied is taken to be tied in
            every sample: groups of ties have no width.

    Returns:
        None where there is no value.
    """
    from scipy.stats import binomtest

    count = sum(map(len, groups))
    if not count:
        return None
    mean = sum(float(values.sum()) for values in groups) / count
    below, above = 0.0, 0.0
    for values in groups:
        decided = values[(values == 0) | (values == 1)]
        if len(decided):
            ends = binomtest(int(decided.sum()), len(decided)).proportion_ci(0.95, method="wilson")
            share = float(decided.mean())
            weight = len(decided) / count
            below += (weight * (share - float(ends.low))) ** 2
            above += (weight * (float(ends.high) - share)) ** 2
    # Not symmetric: Wilson's interval of a group near 0 or 1 is not.
    return [mean - below**0.5, mean + above**0.5]


def crossed_interval(
    numerators: Floats,
    denominators: Floats,
    groups: Sequence[Hashable] | None = None,
) -> Interval:
    """Interval of the mean over networks of Σ numerators / Σ denominators: networks and examples
    are drawn with replacement, independently of each other (Sellam et al. 2022, the
    Multi-Bootstrap).

    Args:
        numerators: (networks, examples), as are `denominators`; the examples are the same for all
            networks.
        groups: (examples,) the group of each example, within which it is drawn; None: all are one
            group.
    """
    chance = np.random.default_rng(SEED)
    networks, examples = numerators.shape
    members: dict[Hashable, list[int]] = {}
    for number, group in enumerate(groups if groups is not None else [0] * examples):
        members.setdefault(group, []).append(number)
    above = np.zeros((RESAMPLES, networks))
    below = np.zeros((RESAMPLES, networks))
    for numbers in members.values():
        drawn = chance.multinomial(
            len(numbers),
            np.full(len(numbers), 1 / len(numbers)),
            RESAMPLES,
        ).astype(np.float64)
        above += drawn @ numerators[:, numbers].T
        below += drawn @ denominators[:, numbers].T
    # Independently of the examples, and the same examples for all networks: they are crossed, not
    # nested.
    weights = chance.multinomial(networks, np.full(networks, 1 / networks), RESAMPLES) / networks
    means = (weights * above / np.maximum(below, 1e-300)).sum(1)
    return np.quantile(means, _BOUNDS).tolist()


def multi_bootstrap(
    scores: npt.ArrayLike,
    resamples: int,
    metric: Callable[[Floats], float],
) -> Ends:
    """95 % interval over pre-training seeds and test examples at once (Sellam et al. 2022, the
    Multi-Bootstrap).

    Seeds and examples are drawn with replacement, independently of each other; the statistic is the
    mean over the drawn seeds of the metric on the drawn examples.

    Args:
        scores: (seeds, examples, …), such as predictions and targets.
        resamples: draws.
        metric: (examples, …) → number.

    >>> multi_bootstrap([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], 10, np.mean)
    (1.0, 1.0)
    """
    table = np.asarray(scores, dtype=np.float64)
    seeds, examples = table.shape[:2]
    generator = np.random.default_rng(SEED)
    means = []
    for _ in range(resamples):
        # Seeds and examples are crossed, every model answers every example: each is drawn once for
        # the whole table.
        rows, columns = (generator.integers(count, size=count) for count in (seeds, examples))
        drawn = table[rows][:, columns]
        means.append(np.mean([metric(of_seed) for of_seed in drawn]))
    low, high = np.quantile(means, _BOUNDS)
    return float(low), float(high)


def bootstrapped(
    samples: Sequence[npt.ArrayLike],
    statistic: Callable[..., object],
    **options: object,
) -> Ends | None:
    """Interval of a statistic by scipy's bootstrap, bias-corrected and accelerated unless `options`
    name another method.

    None where it is undefined: for a single value, and where leaving out any one value changes
    nothing, in a median of many ties.

    Args:
        samples: arrays, each drawn from by itself unless `paired`.
        statistic: of the samples, and of an axis where it has one.
        options: of `scipy.stats.bootstrap`.
    """
    from scipy.stats import bootstrap

    arrays = [np.asarray(sample, np.float64) for sample in samples]
    if min(map(len, arrays)) < 2:
        return None
    with warnings.catch_warnings():
        # scipy warns where the interval is undefined; here None says it
        warnings.simplefilter("ignore")
        result = bootstrap(arrays, statistic, n_resamples=9_999, rng=SEED, **options)
    low, high = map(float, result.confidence_interval)
    return (low, high) if np.isfinite([low, high]).all() else None


def mean_interval(values: Sequence[float]) -> Ends | None:
    """95 % bootstrap interval of the mean over seeds (bias-corrected and accelerated; percentile
    where that is undefined).

    None for fewer than two values; a point if all are equal. Intervals of few seeds, such as ten,
    are too narrow.

    >>> mean_interval([70.0]), mean_interval([70.0, 70.0])
    (None, (70.0, 70.0))
    >>> low, high = mean_interval([70.0, 71.0, 72.0, 73.0])
    >>> 70 <= low < 71.5 < high <= 73
    True
    """
    # One value says nothing of a spread, and an interval of no width would look like certainty.
    if len(values) < 2:
        return None
    if max(values) == min(values):
        return float(values[0]), float(values[0])
    return bootstrapped((values,), np.mean) or bootstrapped((values,), np.mean, method="percentile")
