"""What the numbers of a table can and cannot tell: intervals, tests, and the smallest difference that would be seen.

Everything is scipy's or statsmodels'; here it is said what is asked of them. α = 0.05 and power 0.8 throughout.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

ALPHA = 0.05
POWER = 0.8
RESAMPLES = 9_999
SEED = 0
Floats = NDArray[np.float64]
Interval = list[float]
"""[low, high]"""


@dataclass(frozen=True)
class Difference:
    """A difference of means, `first − second`, with its confidence interval and two-sided p-value.

    `low90` and `high90` bound the 90 % interval: where it lies inside ±δ, equivalence within ±δ is shown at α = 0.05 (two one-sided
    tests).
    """

    value: float
    low: float
    high: float
    low90: float
    high90: float
    p: float
    n: int


def interval(values: Sequence[float], statistic: Callable[..., Any] = np.mean) -> Interval | None:
    """95 % bootstrap interval of a statistic over seeds (bias-corrected and accelerated; percentile where that is undefined).

    None for fewer than two values; a point where all are equal. Few seeds give intervals that are too narrow: ten are few.
    """
    if len(values) < 2:
        return None
    if max(values) == min(values):
        return [float(values[0])] * 2
    for method in ("BCa", "percentile"):
        low, high = _bootstrap(values, statistic, method)
        if np.isfinite([low, high]).all():
            break
    return [float(low), float(high)]


def _bootstrap(values: Sequence[float], statistic: Callable[..., Any], method: str) -> tuple[float, float]:
    from scipy.stats import bootstrap

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BCa says so where it is undefined; the interval is then not finite
        found = bootstrap(
            (np.asarray(values, dtype=np.float64),),
            statistic,
            confidence_level=1 - ALPHA,
            n_resamples=RESAMPLES,
            method=method,
            rng=SEED,
        ).confidence_interval
    return float(found.low), float(found.high)


def multi_bootstrap(scores: ArrayLike, resamples: int = 1_000, metric: Callable[[Floats], float] | None = None) -> Interval:
    """95 % interval over pre-training seeds and test examples at once (Sellam et al. 2022, the Multi-Bootstrap).

    Seeds and examples are drawn with replacement, independently of each other; the statistic is the mean over the drawn seeds of
    the metric on the drawn examples.

    Args:
        scores: (seeds, examples), or (seeds, examples, 2) with predictions and targets for a `metric`. Of two models on the same
            examples, and from the same seeds, give the difference of their scores: it is paired then.
        resamples: draws.
        metric: (examples, …) → number; None: the mean.
    """
    table = np.asarray(scores, dtype=np.float64)
    seeds, examples = table.shape[:2]
    chance = np.random.default_rng(SEED)
    drawn = []
    for _ in range(resamples):
        rows, columns = chance.integers(seeds, size=seeds), chance.integers(examples, size=examples)
        part = table[rows][:, columns]
        drawn.append(part.mean() if metric is None else np.mean([metric(one) for one in part]))
    low, high = np.quantile(drawn, [ALPHA / 2, 1 - ALPHA / 2])
    return [float(low), float(high)]


def welch(values: Sequence[float], mean: float, sem: float, n: int) -> Difference | None:
    """Our values against a printed mean and standard error over n runs: Welch's test, difference = ours − printed.

    None for fewer than two values, and where neither side has any spread.
    """
    from scipy.stats import ttest_ind_from_stats

    count = len(values)
    if count < 2:
        return None
    own, spread = float(np.mean(values)), float(np.std(values, ddof=1))
    if spread == 0 and sem == 0:
        return None
    theirs = sem * n**0.5
    found = ttest_ind_from_stats(own, spread, count, mean, theirs, n, equal_var=False)
    a, b = spread**2 / count, sem**2
    freedom = (a + b) ** 2 / (a**2 / (count - 1) + b**2 / max(1, n - 1))
    return with_intervals(own - mean, (a + b) ** 0.5, freedom, float(found.pvalue), count)


def paired(first: Sequence[float], second: Sequence[float]) -> Difference | None:
    """Two rows over the same seeds: Student's paired test of `first − second`.

    None for fewer than two pairs. Differences that are all equal have no spread: their interval is a point, p is 0, or 1 at zero.
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
    """Two rows over different seeds: Welch's test of `first − second`; None where a row has fewer than two values."""
    if len(second) < 2:
        return None
    return welch(first, float(np.mean(second)), float(np.std(second, ddof=1) / len(second) ** 0.5), len(second))


def with_intervals(value: float, error: float, freedom: float, p: float, n: int) -> Difference:
    """A difference with this standard error, by the t-distribution with so many degrees of freedom."""
    from scipy.stats import t

    wide, narrow = (float(t.ppf(1 - alpha / 2, freedom)) * error for alpha in (ALPHA, 2 * ALPHA))
    return Difference(value, value - wide, value + wide, value - narrow, value + narrow, p, n)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values of one family, adjusted by Holm's step-down method."""
    from statsmodels.stats.multitest import multipletests

    return [float(p) for p in multipletests(p_values, alpha=ALPHA, method="holm")[1]] if p_values else []


def detectable_by_seeds(spread: float, n: int, other: int | None = None) -> float | None:
    """The smallest true difference between two rows' means that a two-sided t-test finds with a probability of 0.8.

    Args:
        spread: standard deviation over seeds.
        n: seeds of the row; None is returned below two.
        other: runs of the row that it is held against; None: as many.
    """
    if n < 2:
        return None
    from statsmodels.stats.power import TTestIndPower

    effect = TTestIndPower().solve_power(nobs1=n, alpha=ALPHA, power=POWER, ratio=(other or n) / n)
    return float(np.squeeze(effect)) * spread


def detectable_by_examples(error: float, n: int) -> float:
    """The same for two single models on n dev examples, taken as independent: what more seeds do not make smaller.

    Args:
        error: standard error of one model's score on that dev set.
        n: its examples.
    """
    from statsmodels.stats.power import NormalIndPower

    effect = NormalIndPower().solve_power(nobs1=n, alpha=ALPHA, power=POWER, ratio=1.0)
    return float(np.squeeze(effect)) * error * n**0.5
