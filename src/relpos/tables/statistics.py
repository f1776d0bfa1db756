"""What the numbers of a table can and cannot tell: intervals, tests, and the smallest difference that would be found.

Everything is scipy's or statsmodels'; this file says what is asked of them. α = 0.05 and power 0.8 throughout.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

ALPHA = 0.05
POWER = 0.8
RESAMPLES = 9_999
SEED = 0
Floats = NDArray[np.float64]
Interval = tuple[float, float]
"""(low, high)"""
Statistic = Callable[..., object]
"""numpy's mean, max or median: values, and for scipy an axis → their statistic."""


@dataclass(frozen=True)
class Difference:
    """A difference of means, `first − second`, with its confidence interval and two-sided p-value.

    `low` and `high` bound the 95 % interval, `low90` and `high90` the 90 % interval: where the latter lies inside ±δ, equivalence
    within ±δ is shown at α = 0.05 (two one-sided tests). `n` counts pairs, or the values of `first`.
    """

    value: float
    low: float
    high: float
    low90: float
    high90: float
    p: float
    n: int


def standard_error(score: float, examples: int, metric: str) -> float:
    """Of a score × 100 on a set of so many examples: what a model scores differs by as much from set to set.

    Binomial, 100·√(p(1−p)/n), for accuracies; p is smoothed by Laplace's rule, (pn + 1)/(n + 2), because all of n examples right
    is not certainty. 100/√n, the error of no correlation, for every other metric.

    >>> round(standard_error(50.0, 400, "accuracy"), 1), standard_error(12.0, 400, "matthews")
    (2.5, 5.0)
    """
    if "accuracy" not in metric:
        return 100 / sqrt(examples)
    share = (score / 100 * examples + 1) / (examples + 2)
    return 100 * sqrt(share * (1 - share) / examples)


def interval(values: Sequence[float], statistic: Statistic = np.mean) -> Interval | None:
    """95 % bootstrap interval of a statistic over seeds (bias-corrected and accelerated; percentile where that is undefined).

    None for fewer than two values; a point where all are equal. Intervals of few seeds are too narrow: ten are few.

    >>> interval([70.0]), interval([70.0, 70.0])
    (None, (70.0, 70.0))
    >>> low, high = interval([70.0, 71.0, 72.0, 73.0])
    >>> 70 <= low < 71.5 < high <= 73
    True
    """
    if len(values) < 2:
        return None
    if max(values) == min(values):
        return float(values[0]), float(values[0])
    ends = _bootstrap(values, statistic, "BCa")
    return ends if np.isfinite(ends).all() else _bootstrap(values, statistic, "percentile")


def _bootstrap(values: Sequence[float], statistic: Statistic, method: str) -> Interval:
    from scipy.stats import bootstrap

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where BCa is undefined scipy warns; the interval is then not finite
        ends = bootstrap(
            (np.asarray(values, dtype=np.float64),),
            statistic,
            confidence_level=1 - ALPHA,
            n_resamples=RESAMPLES,
            method=method,
            rng=SEED,
        ).confidence_interval
    return float(ends.low), float(ends.high)


def multi_bootstrap(scores: ArrayLike, resamples: int = 1_000, metric: Callable[[Floats], float] | None = None) -> Interval:
    """95 % interval over pre-training seeds and test examples at once (Sellam et al. 2022, the Multi-Bootstrap).

    Seeds and examples are drawn with replacement, independently of each other; the statistic is the mean over the drawn seeds of
    the metric on the drawn examples.

    Args:
        scores: (seeds, examples), or (seeds, examples, 2) with predictions and targets for a `metric`. Of two models on the same
            examples, and from the same seeds, give the difference of their scores: it is paired then.
        resamples: draws.
        metric: (examples, …) → number; None: the mean.

    >>> multi_bootstrap([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], resamples=10)
    (1.0, 1.0)
    """
    table = np.asarray(scores, dtype=np.float64)
    seeds, examples = table.shape[:2]
    generator = np.random.default_rng(SEED)
    means = []
    for _ in range(resamples):
        rows, columns = generator.integers(seeds, size=seeds), generator.integers(examples, size=examples)
        drawn = table[rows][:, columns]
        means.append(drawn.mean() if metric is None else np.mean([metric(of_seed) for of_seed in drawn]))
    low, high = np.quantile(means, [ALPHA / 2, 1 - ALPHA / 2])
    return float(low), float(high)


def welch(values: Sequence[float], mean: float, sem: float, n: int) -> Difference | None:
    """Our values against a printed mean and standard error over n runs: Welch's test, difference = ours − printed.

    None for fewer than two values, and where neither side has any spread.

    >>> difference = welch([71.0, 72.0, 73.0], mean=70.0, sem=0.5, n=10)
    >>> difference.value, difference.low < 2.0 < difference.high
    (2.0, True)
    """
    from scipy.stats import ttest_ind_from_stats

    count = len(values)
    if count < 2:
        return None
    own_mean, spread = float(np.mean(values)), float(np.std(values, ddof=1))
    if spread == 0 and sem == 0:
        return None
    printed_spread = sem * n**0.5
    test = ttest_ind_from_stats(own_mean, spread, count, mean, printed_spread, n, equal_var=False)
    own_square, printed_square = spread**2 / count, sem**2
    freedom = (own_square + printed_square) ** 2 / (own_square**2 / (count - 1) + printed_square**2 / max(1, n - 1))
    return with_intervals(own_mean - mean, (own_square + printed_square) ** 0.5, freedom, float(test.pvalue), count)


def paired(first: Sequence[float], second: Sequence[float]) -> Difference | None:
    """Two rows over the same seeds: Student's paired test of `first − second`.

    None for fewer than two pairs. Differences that are all equal have no spread: their interval is a point, p is 0, or 1 at zero.

    >>> paired([71.0, 72.0, 73.0], [70.0, 71.0, 72.0])
    Difference(value=1.0, low=1.0, high=1.0, low90=1.0, high90=1.0, p=0.0, n=3)
    """
    from scipy.stats import ttest_rel

    differences = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    n = len(differences)
    if n < 2:
        return None
    value, error = float(differences.mean()), float(differences.std(ddof=1) / n**0.5)
    if error < 1e-12:
        return Difference(value, value, value, value, value, float(abs(value) < 1e-12), n)
    return with_intervals(value, error, n - 1, float(ttest_rel(first, second).pvalue), n)


def independent(first: Sequence[float], second: Sequence[float]) -> Difference | None:
    """Two rows over different seeds: Welch's test of `first − second`; None where a row has fewer than two values.

    >>> independent([71.0, 73.0], [70.0]) is None
    True
    >>> independent([71.0, 73.0], [70.0, 72.0]).value
    1.0
    """
    if len(second) < 2:
        return None
    return welch(first, float(np.mean(second)), float(np.std(second, ddof=1) / len(second) ** 0.5), len(second))


def with_intervals(value: float, error: float, freedom: float, p: float, n: int) -> Difference:
    """A difference with this standard error, by the t-distribution with so many degrees of freedom.

    >>> round(with_intervals(1.0, error=0.5, freedom=1e9, p=0.05, n=10).low, 3)  # 1 − 1.96 · 0.5
    0.02
    """
    from scipy.stats import t

    wide, narrow = (float(t.ppf(1 - alpha / 2, freedom)) * error for alpha in (ALPHA, 2 * ALPHA))
    return Difference(value, value - wide, value + wide, value - narrow, value + narrow, p, n)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values of one family, adjusted by Holm's step-down method.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    from statsmodels.stats.multitest import multipletests

    return [float(p) for p in multipletests(p_values, alpha=ALPHA, method="holm")[1]] if p_values else []


def detectable_by_seeds(spread: float, n: int, other: int | None = None) -> float | None:
    """The smallest true difference between two rows' means that a two-sided t-test finds with a probability of 0.8.

    Args:
        spread: standard deviation over seeds.
        n: seeds of the row; the result is None below two.
        other: runs of the row that it is compared with; None: as many.

    >>> round(detectable_by_seeds(1.0, 10), 2), detectable_by_seeds(1.0, 1)
    (1.32, None)
    """
    if n < 2:
        return None
    from statsmodels.stats.power import TTestIndPower

    effect = TTestIndPower().solve_power(nobs1=n, alpha=ALPHA, power=POWER, ratio=(other or n) / n)
    return float(np.squeeze(effect)) * spread


def detectable_by_examples(error: float, n: int) -> float:
    """The same for two single models on n dev examples, taken as independent: no number of seeds makes it smaller.

    Args:
        error: standard error of one model's score on that dev set.
        n: its examples.

    >>> round(detectable_by_examples(standard_error(70.0, 277, "accuracy"), 277), 1)  # RTE
    10.9
    """
    from statsmodels.stats.power import NormalIndPower

    effect = NormalIndPower().solve_power(nobs1=n, alpha=ALPHA, power=POWER, ratio=1.0)
    return float(np.squeeze(effect)) * error * n**0.5
