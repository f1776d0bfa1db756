"""Statistics of tables and claims: intervals, tests, and how many seeds would find a difference.

scipy computes the distributions. α = 0.05 and power 0.8 throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

ALPHA = 0.05
SEED = 0
UNDECIDED, NOT_RUN = "undecided", "not run"
"""Verdicts on a difference that the runs do not show, and on one without runs."""
HOLDS, FAILS, NOT_HERE = "holds", "fails", "cannot be said here"
"""Further verdicts, on claims. `NOT_HERE`: the rows that are compared are on the plateau, see
`relpos.results.plateau`."""
POINT = 1e-12
"""Standard errors below this count as zero."""
FOUND = 1.959964 + 0.841621
"""A difference of so many standard errors is found at 0.05 with probability 0.8: normal quantiles
of 0.975 and 0.8."""
MOST = 1_000
"""A difference that needs so many pre-training seeds is called too small to be found."""
Interval = tuple[float, float]
"""(low, high)"""


@dataclass(frozen=True)
class Difference:
    """A difference of means, `first − second`, and how well it is known.

    >>> difference = Difference(1.0, error=0.5, freedom=1e9, n=10)
    >>> round(difference.low, 2), round(difference.p, 3), round(difference.p_against(1.0), 3)
    (0.02, 0.046, 1.0)

    Args:
        value: the difference.
        error: its standard error; below 1e-12 the interval is a point.
        freedom: degrees of freedom of the t-distribution.
        n: pairs, or values of `first`.
        alone: of a moderated error, the same difference by its own pairs alone; see
            `relpos.results.contrast`.
    """

    value: float
    error: float
    freedom: float
    n: int
    alone: Difference | None = None

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval; `high` is the upper end."""
        return self.value - self._half_width

    @property
    def high(self) -> float:
        return self.value + self._half_width

    @property
    def p(self) -> float:
        """Two-sided p-value of no difference."""
        return self.p_against(0.0)

    def p_against(self, value: float) -> float:
        """Two-sided p-value of a true difference of `value`."""
        from scipy.special import stdtr

        distance = abs(self.value - value)
        if self.error < POINT:
            # Without an error nothing is left to chance: the two values are equal or they are not.
            return float(distance < POINT)
        return float(2 * stdtr(self.freedom, -distance / self.error))

    def interval(self, digits: int) -> str:
        """`[+0.02, +1.98]`: the 95 % interval."""
        return f"[{self.low:+.{digits}f}, {self.high:+.{digits}f}]"

    @property
    def _half_width(self) -> float:
        from scipy.special import stdtrit

        if self.error < POINT:
            return 0.0
        return float(stdtrit(self.freedom, 1 - ALPHA / 2)) * self.error


def clustered(
    differences: NDArray[np.float64],
    sizes: NDArray[np.float64],
    clusters: Sequence[float] | None = None,
) -> Difference:
    """Σ differences / Σ sizes with its standard error over clusters.

    This is the ratio-to-size estimate of Cochran (1977), *Sampling techniques*, Chapter 9A. With y
    and m a cluster's sums and R the ratio:

        error² = C/(C − 1) · Σ_c (y_c − R·m_c)² / (Σ_c m_c)²          C clusters, t-distribution with C − 1 degrees of freedom

    Examples of one document are alike and so not independent: as clusters they give a larger error.

    >>> of_examples = np.array([1.0, 1.0, 3.0, 3.0]), np.ones(4)
    >>> clustered(*of_examples).n, clustered(*of_examples, clusters=[0, 0, 1, 1]).error
    (4, 1.0)

    Args:
        differences: (examples,) summed over the predicted tokens of each example.
        sizes: (examples,) the number of these tokens.
        clusters: (examples,) the number of the cluster of each example; None: each example is a
            cluster.
    """
    if clusters is None:
        clusters = np.arange(len(sizes)).tolist()
    _, of_example = np.unique(clusters, return_inverse=True)
    y = np.bincount(of_example, differences)
    m = np.bincount(of_example, sizes)
    count = len(m)
    tokens = float(m.sum())
    ratio = float(y.sum() / m.sum())
    # A single cluster has no spread: its residual is zero, and `max` keeps the factor finite.
    factor = count / max(count - 1, 1)
    return Difference(
        ratio,
        sqrt(factor * float(((y - ratio * m) ** 2).sum())) / tokens,
        max(count - 1, 1),
        count,
    )


def of_errors(gain: float, base: float) -> float | None:
    """Per cent of the errors of a score × 100 that a gain over it removes; None where the score has
    no errors.

    90 → 95 and 50 → 75 both halve the errors, though the points differ.

    >>> of_errors(5.0, 90.0), of_errors(25.0, 50.0)
    (50.0, 50.0)
    """
    if base >= 100:
        return None
    return 100 * gain / (100 - base)


def standard_error(score: float, examples: int, metric: str) -> float:
    """Standard error of a score × 100 over examples: how much the score of one model differs
    between sets of this size.

    Binomial, 100·√(p(1−p)/n), for accuracies; p is smoothed by Laplace's rule, (pn + 1)/(n + 2),
    because a score of 100 is not free of error. 100·(1 − r²)/√n for a correlation r of numbers
    (Pearson, Spearman). 100/√n, the error of no correlation, for every other metric.

    >>> round(standard_error(50.0, 400, "accuracy"), 1), standard_error(12.0, 400, "matthews")
    (2.5, 5.0)
    >>> round(standard_error(80.0, 1500, "pearson_and_spearman"), 2)
    0.93
    """
    # The large-sample error of Pearson's r, to which that of Spearman's is near.
    if "pearson" in metric:
        return 100 * (1 - (score / 100) ** 2) / sqrt(examples)
    if "accuracy" not in metric:
        return 100 / sqrt(examples)
    share = (score / 100 * examples + 1) / (examples + 2)
    return 100 * sqrt(share * (1 - share) / examples)


def paired(differences: Sequence[float]) -> Difference | None:
    """Student's test of the mean of differences, as of two rows over the same seeds, where an
    effect that a seed has on both cancels; None for fewer than two.

    >>> paired([1.0, 1.0, 2.0]).value
    1.3333333333333333
    """
    n = len(differences)
    if n < 2:
        return None
    error = float(np.std(differences, ddof=1)) / n**0.5
    return Difference(float(np.mean(differences)), error, n - 1, n)


def combined(terms: Sequence[tuple[float, Difference]]) -> Difference:
    """Σ weight · difference of independent differences; degrees of freedom by Welch and
    Satterthwaite.

    >>> combined([(1.0, Difference(3.0, 0.3, 10.0, 5)), (-1.0, Difference(1.0, 0.4, 10.0, 5))]).error
    0.5
    """
    variances = [(weight * term.error) ** 2 for weight, term in terms]
    freedom = satterthwaite(variances, [term.freedom for _, term in terms])
    value = sum(weight * term.value for weight, term in terms)
    return Difference(value, sum(variances) ** 0.5, freedom, min(term.n for _, term in terms))


def satterthwaite(variances: Sequence[float], freedom: Sequence[float]) -> float:
    """Degrees of freedom of the sum of independent estimates v with d degrees each: (Σ v)² / Σ
    v²/d.

    >>> satterthwaite([1.0, 1.0], [10, 10]), satterthwaite([0.0, 0.0], [10, 20])
    (20.0, 10)
    """
    doubt = sum(variance**2 / degrees for variance, degrees in zip(variances, freedom, strict=True))
    return sum(variances) ** 2 / doubt if doubt else min(freedom)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values of one family, adjusted by Holm's step-down method.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    # statsmodels' multipletests collects garbage at every call, which takes 50 ms
    order = np.argsort(p_values)
    # Adjusted p-values never fall along the order: after the first that is not significant Holm's
    # method rejects nothing.
    steps = np.maximum.accumulate(
        np.asarray(p_values)[order] * (len(order) - np.arange(len(order)))
    )
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(steps, 1.0)
    return [float(p) for p in adjusted]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """p-values of one page, adjusted by Benjamini and Hochberg's method: at 0.05, one in twenty
    findings is expected to be false.

    >>> [round(p, 3) for p in benjamini_hochberg([0.01, 0.04, 0.03])]
    [0.03, 0.04, 0.04]
    """
    from scipy.stats import false_discovery_control

    adjusted: list[float] = false_discovery_control(np.asarray(p_values, np.float64)).tolist()
    return adjusted


def seeds_needed(tested: Difference) -> int:
    """Seeds of each row with which a two-sided t-test at 0.05 finds this difference with
    probability 0.8; `MOST` at most.

    By the normal approximation, plus one seed for the t-distribution.

    >>> seeds_needed(Difference(1.0, error=0.5, freedom=8.0, n=5)), seeds_needed(Difference(0.0, error=0.5, freedom=8.0, n=5))
    (11, 1000)
    """
    # The error of a difference of two means of n each is σ·√(2/n).
    spread = tested.error * (tested.n / 2) ** 0.5
    effect = abs(tested.value) / spread if spread else 0.0
    if effect < (2 * FOUND**2 / MOST) ** 0.5:
        return MOST
    # One more seed, because the normal approximation ignores that the spread is estimated.
    return max(2, ceil(2 * (FOUND / effect) ** 2 + 1))
