"""Differences between rows of a scale: each with its own error, moderated by those of all other
differences.

A unit is a pre-training: the mean over its fine-tunings, which are not independent of each other.
Three pre-trainings of two rows say little about the error of their difference; all pairs of fifteen
rows say much about what such errors are like. Rows that share seeds are paired: what a seed does to
both rows (initial weights, order of the text) cancels. The variance s² of the differences, with d =
seeds − 1 degrees of freedom, is then shrunk toward the others, by limma's moderated variance (Smyth
2004, *Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments*, Eq. 4 and Section 6.2):

    s̃² = (d₀·s₀² + d·s²) / (d₀ + d)          tested by Student's t with d₀ + d degrees of freedom, at most those of all rows

The true variances are assumed to be distributed as s₀²·d₀/χ²(d₀). s₀² and d₀ follow from mean and
variance of log s² over all pairs of rows. If these vary no more than by chance, d₀ is infinite, and
s̃² is the mean of all: the residual variance of *row + seed + error* fitted by least squares. If
they vary much, d₀ is small, and each pair stands nearly alone.

Differences are pooled and not rows, because a contrast needs them, and because a seed does not do
the same to all rows: in the committed table `composite` and its kin leave the plateau with the same
seeds, and rows that never leave it have a fiftieth of that variance. An effect of the seed that is
common to all rows would put the spread of the first into the residuals of the second. Simulations
in the tests: under spreads as unequal as in that table the size, over all pairs, is 0.03 to 0.07 at
3, 5 and 10 seeds, and 0.05 nats between two rows with a tenth of the others' spread are found with
three seeds in at least 80 % of the draws.

A row whose units are all equal is constant by theorem (`none` when words are shuffled, `alibi` when
rows are reversed), and a row at the constant answer nearly so; a row that does not know the order
yet finds it at a time that differs from seed to seed by far more than the losses of those that know
it. Such rows stay apart, because their spread says nothing about that of others. A comparison with
one of them has its own error alone. With eleven rows that know the order and three that do not, 95 %
intervals hold the true difference in 0.93 to 0.97 of the simulated cases, of either kind of pair, at
two, three and five seeds (in one pool 0.69 to 0.83 for the noisy and 0.98 to 1.00 for the quiet).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, inf, log, nan

import numpy as np
from numpy.typing import NDArray

from relpos.results.statistics import (
    ALPHA,
    POINT,
    SEED,
    Difference,
    combined,
    paired,
    satterthwaite,
)

Units = Mapping[int, float]
"""Pre-training seed → score × 100, or nats."""
Cells = tuple[tuple[tuple[int, float], ...], ...]
"""Row by row, (seed, score) of each unit."""
Floats = NDArray[np.float64]
SAME = 1e-6
"""Units of a row that differ by less than this, in points or nats, do not differ."""
LEAST = 1e-5
"""Variances below this share of their median count as this share, so that one of zero has a
logarithm (limma does the same)."""
DRAWS = 999
"""Draws of the null distribution of Bartlett's statistic."""


@dataclass(frozen=True)
class Spread:
    """The estimated variance of pre-trainings about the mean of their row, and its degrees of
    freedom."""

    variance: float
    freedom: float


@dataclass(frozen=True)
class Prior:
    """The prior distribution of the variances of a scale.

    Args:
        variance: s₀².
        freedom: d₀; infinite where they differ no more than by chance.
        most: degrees of freedom of all rows together.
    """

    variance: float
    freedom: float
    most: float

    def moderated(self, variance: float, freedom: float) -> Spread:
        """s̃² and its degrees of freedom, for a variance and its own degrees.

        >>> Prior(1.0, 4.0, most=30.0).moderated(4.0, 2.0)
        Spread(variance=2.0, freedom=6.0)
        """
        # The formula below would divide infinity by infinity.
        if self.freedom == inf:
            return Spread(self.variance, self.most)
        total = self.freedom + freedom
        return Spread(
            (self.freedom * self.variance + freedom * variance) / total,
            min(total, self.most),
        )


def contrast(
    rows: Mapping[str, Units],
    weights: Mapping[str, float],
    apart: Collection[str] = (),
) -> Difference | None:
    """Σ weight · row, the weights adding up to zero; None if the rows do not show how much
    pre-trainings differ.

    >>> rows = {"a": {0: 4.0, 1: 5.0}, "b": {0: 1.0, 1: 2.5}, "c": {0: 2.0, 1: 2.5}}
    >>> round(contrast(rows, {"a": 1.0, "b": -0.5, "c": -0.5}).value, 6)
    2.5
    >>> tested = contrast({"a": {0: 71.0, 1: 72.5}, "b": {0: 70.0, 1: 71.0}, "c": {0: 65.0, 1: 66.1}}, {"a": 1.0, "b": -1.0})
    >>> round(tested.value, 6), tested.freedom, tested.alone.freedom
    (1.25, 2.0, 1)

    Args:
        rows: all of one scale, in the same columns.
        weights: of the rows that are compared.
        apart: rows whose spread says nothing about that of others.
    """
    compared = [rows[row] for row in weights]
    shared = sorted(set.intersection(*map(set, compared)))
    pool = _pool(rows, apart)
    is_inside = set(weights) <= set(pool)
    # Seeds that not all rows have cannot be paired, and are left out even where there are many.
    values = [sum(weight * rows[row][seed] for row, weight in weights.items()) for seed in shared]
    alone = paired(values)
    if alone is None and (not is_inside or max(map(len, compared)) > len(shared)):
        return _unpaired(rows, weights, pool)
    prior = _prior(_cells(pool), True) if is_inside else None
    squares = sum(weight**2 for weight in weights.values())
    if alone is not None:
        return replace(_moderated(alone, prior, squares), alone=alone) if prior else alone
    if prior is None:
        return None
    # Rows of one pre-training each, with the same seed: only other rows show how large the error
    # is.
    return _moderated(Difference(values[0], 0.0, 0.0, 1), prior, squares)


def _pool(rows: Mapping[str, Units], apart: Collection[str]) -> dict[str, Units]:
    """The rows whose spread says something about that of other rows."""
    pool = {}
    for row, units in rows.items():
        if not units or row in apart:
            continue
        if len(units) == 1 or max(units.values()) - min(units.values()) >= SAME:
            pool[row] = units
    return pool


def _moderated(alone: Difference, prior: Prior, squares: float) -> Difference:
    """A paired difference with its variance moderated; `squares` is Σ weight², and the prior is of
    a weight of 1."""
    moderated = prior.moderated(alone.error**2 * alone.n / squares, alone.freedom)
    error = (moderated.variance * squares / alone.n) ** 0.5
    return replace(alone, error=error if error >= POINT else 0.0, freedom=moderated.freedom)


def _unpaired(
    rows: Mapping[str, Units],
    weights: Mapping[str, float],
    pool: Mapping[str, Units],
) -> Difference | None:
    """Rows of different seeds: Welch's test. The variance of a row in the pool is moderated; one
    that stands apart has its own."""
    prior = _prior(_cells(pool), False) if pool else None
    terms = []
    for row, weight in weights.items():
        values = list(rows[row].values())
        mean = paired(values) or Difference(values[0], 0.0, 0.0, 1)
        if prior and row in pool:
            mean = _moderated(mean, prior, 1.0)
        elif mean.n < 2:
            return None
        terms.append((weight, mean))
    tested = combined(terms)
    most = prior.most if prior and set(weights) <= set(pool) else inf
    if tested.error < POINT:
        return None
    return replace(tested, freedom=min(tested.freedom, most), n=terms[0][1].n)


@lru_cache(maxsize=256)
def _prior(cells: Cells, is_crossed: bool) -> Prior | None:
    """Smyth's moment estimates; None where no variance is known, or most of them are zero."""
    variances, freedom = _variances(_table(cells), is_crossed)
    if not len(variances) or np.median(variances) < POINT**2:
        return None
    from scipy.special import digamma, polygamma

    most = float(_fit(cells, is_crossed)[1])
    # Compared by their logarithms, whose expectation and spread under one true variance are known.
    logs = np.log(np.maximum(variances, LEAST * np.median(variances)))
    logs = logs - digamma(freedom / 2) + np.log(freedom / 2)
    varies = 0.0
    if len(logs) > 1:
        varies = float(np.var(logs, ddof=1) - polygamma(1, freedom / 2).mean())
    if varies <= 0:
        return Prior(float((variances * freedom).sum() / freedom.sum()), inf, most)
    half = _trigamma_inverse(varies)
    return Prior(exp(float(logs.mean()) + float(digamma(half)) - log(half)), 2 * half, most)


def _trigamma_inverse(value: float) -> float:
    """x with ψ′(x) = value, between the bounds that 1/x < ψ′(x) < 1/x + 1/x² gives.

    >>> round(_trigamma_inverse(1.6449340668), 6)
    1.0
    """
    from scipy.optimize import brentq
    from scipy.special import polygamma

    return float(brentq(lambda x: polygamma(1, x) - value, 1 / value, 1 / value + value**-0.5))


def _variances(table: Floats, is_crossed: bool) -> tuple[Floats, Floats]:
    """Variances and degrees of freedom: of each row or, if crossed, of each difference of two rows
    over their shared seeds.

    Variances of differences are halved, so that those of independent rows have the same expectation
    as variances of rows.

    Args:
        table: (…, rows, seeds) see `_table`; the variances are (…, rows or pairs).
    """
    if is_crossed:
        first, second = np.triu_indices(table.shape[-2], 1)
        table = (table[..., first, :] - table[..., second, :]) / 2**0.5
    counts = np.isfinite(table).sum(-1)
    counts = counts[(0,) * (counts.ndim - 1)]  # every draw has the same
    several = counts > 1
    return np.nanvar(table[..., several, :], axis=-1, ddof=1), counts[several] - 1.0


def spread(rows: Mapping[str, Units], row: str) -> Spread | None:
    """How much pre-trainings of `row` with different seeds differ; None if no row has several
    pre-trainings.

    The variance is the sum of two components, seeds and errors, both estimated from all rows, with
    degrees of freedom by Satterthwaite's formula. If the test of equal spreads rejects, the
    variance is the row's own, moderated by the other rows'.

    >>> spread({"a": {0: 71.0, 1: 73.0}}, "a")
    Spread(variance=2.0, freedom=1.0)
    """
    pool = _pool(rows, apart=())
    if row not in pool or max(map(len, pool.values())) < 2:
        return None
    cells = _cells(pool)
    squares, freedom = _fit(cells, is_crossed=False)
    # A pooled spread would be too small for a noisy row and too large for a quiet one.
    if equal_spreads(cells) < ALPHA:
        values = list(pool[row].values())
        prior = _prior(cells, False)
        if prior is None or len(values) < 2:
            return None
        return prior.moderated(float(np.var(values, ddof=1)), len(values) - 1.0)
    within, residual_freedom = _fit(cells, is_crossed=True)
    by_seeds = freedom - residual_freedom
    # Too few rows or seeds to tell the two components apart: their sum is still known.
    if by_seeds < 1 or residual_freedom < 1:
        return Spread(squares / freedom, float(freedom))
    # With r rows a seed, the mean square of seeds is error + r · seed, that of errors is error. So
    # seed + error is the first / r plus the second · (1 − 1/r).
    several = [units for units in pool.values() if len(units) > 1]
    share = len({seed for units in several for seed in units}) / sum(map(len, several))  # 1/r
    parts = share * (squares - within) / by_seeds, (1 - share) * within / residual_freedom
    if sum(parts) < POINT**2:
        return Spread(0.0, float(freedom))
    return Spread(float(sum(parts)), satterthwaite(parts, (by_seeds, residual_freedom)))


def _cells(pool: Mapping[str, Units]) -> Cells:
    rows = (tuple(sorted(units.items())) for units in pool.values())
    # Sorted by the seeds that they have, so that draws for these places do not depend on the order
    # of rows and runs.
    return tuple(sorted(rows, key=lambda units: [seed for seed, _ in units]))


def _table(cells: Cells) -> Floats:
    """(rows, seeds): the scores, not-a-number where a row lacks a seed."""
    seeds = sorted({seed for row in cells for seed, _ in row})
    return np.array([[dict(row).get(seed, nan) for seed in seeds] for row in cells])


# Not statsmodels' OLS, which takes 1.4 s of CPU time to import.
@lru_cache(maxsize=256)
def _fit(cells: Cells, is_crossed: bool) -> tuple[float, int]:
    """Sum of the squared residuals and their degrees of freedom, by least squares with an effect
    for each row and, if crossed, each seed but the first. Cached for all pairs of a scale."""
    table = _table(cells)
    rows, seeds = np.nonzero(np.isfinite(table))
    design = np.eye(len(table))[rows]
    scores = table[rows, seeds]
    # The first seed has no effect of its own: with one for every row and every seed the design
    # would be singular.
    if is_crossed:
        design = np.hstack([design, np.eye(table.shape[1])[seeds, 1:]])
    # By rank: where rows share no seed, the effect of a seed cannot be told from that of a row, and
    # a column is too many.
    effects, _, rank, _ = np.linalg.lstsq(design, scores)
    return float(((scores - design @ effects) ** 2).sum()), len(scores) - int(rank)


@lru_cache(maxsize=256)
def equal_spreads(cells: Cells) -> float:
    """p-value of equal spreads: Bartlett's statistic with its null distribution simulated for
    exactly these rows and seeds.

    The statistic is log of the mean variance − mean log variance, over the differences of two rows
    that share seeds, and where none do over rows. In differences an effect of the seed cancels, so
    the test is exact for normal errors at any number of seeds, and also finds rows that have more
    in common than a seed's effect. 1.0 where there are fewer than two variances.
    """
    table = _table(cells)
    is_crossed = len(_variances(table, True)[0]) > 0
    variances, freedom = _variances(table, is_crossed)
    if len(variances) < 2 or variances.max() < POINT**2:
        return 1.0
    places = tuple(tuple((seed, 0.0) for seed, _ in row) for row in cells)
    larger = _null(places, is_crossed) >= _bartlett(variances, freedom)
    return float((1 + larger.sum()) / (1 + DRAWS))


def _bartlett(variances: Floats, freedom: Floats) -> Floats:
    """(…,) of variances (…, rows or pairs)."""
    weights = freedom / freedom.sum()
    logs = np.log(np.maximum(variances, POINT**2))
    return np.asarray(np.log(variances @ weights) - logs @ weights)


@lru_cache(maxsize=64)
def _null(places: Cells, is_crossed: bool) -> Floats:
    """(draws,): Bartlett's statistic of normal numbers of one spread in these places."""
    is_there = np.isfinite(_table(places))
    drawn = np.full((DRAWS, *is_there.shape), nan)
    # The statistic does not depend on means or on the common spread, so that standard normal
    # numbers stand for all.
    generator = np.random.default_rng(SEED)
    drawn[:, is_there] = generator.standard_normal((DRAWS, is_there.sum()))
    return _bartlett(*_variances(drawn, is_crossed))
