"""Differences between rows, with an error that is estimated from all rows of a scale together.

A unit is a pre-training: the mean over its fine-tunings, which are not independent of each other. Three pre-trainings of a row say
little about its error; fifteen rows of three say much. All rows are assumed to have the same error, and rows that share seeds to
share what a seed does to every row (initial weights, order of the text):

    score of row r, seed s  =  row r + seed s + error                fitted by least squares

With fifteen rows and three seeds the error has 28 degrees of freedom (t = 2.05) instead of the 2 of one pair (t = 4.30). A row of
one pre-training adds nothing to the estimate of the error, but can be tested with it. Where the assumption does not hold, each pair
is tested by itself, by Welch's test: if Brown and Forsythe's test rejects equal spreads at 0.05, or if a row sits at the constant
answer and so has no spread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from relpos.tables.statistics import ALPHA, POINT, Difference, welch_contrast

Units = Mapping[int, float]
"""Pre-training seed → score × 100."""
Cells = tuple[tuple[int, int, float], ...]
"""(place of the row, seed, score) of each unit."""
FEWEST = 3
"""The fewest units of a row whose spread is compared with that of other rows."""


@dataclass(frozen=True)
class Spread:
    """The estimated variance of pre-trainings about the mean of their row, and its degrees of freedom."""

    variance: float
    freedom: float


def difference(rows: Mapping[str, Units], first: str, second: str, constant: Collection[str] = ()) -> Difference | None:
    """`first − second`; None if the rows do not show how much pre-trainings differ.

    >>> tested = difference({"a": {0: 71.0, 1: 72.5}, "b": {0: 70.0, 1: 71.0}, "c": {0: 65.0, 1: 66.1}}, "a", "b")
    >>> round(tested.value, 6), tested.freedom
    (1.25, 2.0)

    Args:
        rows: of one scale, all in the same columns.
        first: a row.
        second: a row.
        constant: rows that sit at the constant answer.
    """
    return contrast(rows, {first: 1.0, second: -1.0}, constant)


def contrast(rows: Mapping[str, Units], weights: Mapping[str, float], constant: Collection[str] = ()) -> Difference | None:
    """Σ weight · row, the weights adding up to zero: `difference` for more than two rows.

    >>> rows = {"a": {0: 4.0, 1: 5.0}, "b": {0: 1.0, 1: 2.5}, "c": {0: 2.0, 1: 2.5}}
    >>> round(contrast(rows, {"a": 1.0, "b": -0.5, "c": -0.5}).value, 6)
    2.5

    Args:
        rows: of one scale, all in the same columns.
        weights: row → its weight.
        constant: rows that sit at the constant answer.
    """
    named = [rows[row] for row in weights]
    shared = set.intersection(*(set(units) for units in named))
    pool = {row: units for row, units in rows.items() if units and row not in constant}
    if not set(weights) <= set(pool):
        return _apart(rows, weights)
    # Effects of seeds are fitted where the rows share seeds; rows of different seeds are compared by their plain means.
    is_crossed = len(shared) >= 2 or all(set(units) == set(named[0]) for units in named)
    fit = _fit(_cells(pool), is_crossed)
    if fit.df_resid < 1:
        return None
    if _spreads_differ(_cells(pool), is_crossed):
        return _apart(rows, weights)
    names = list(pool)
    vector = np.zeros(len(fit.params))
    for row, weight in weights.items():
        vector[names.index(row)] = weight
    error = fit.error(vector)
    n = len(shared) if is_crossed else len(named[0])
    return Difference(float(vector @ fit.params), error if error >= POINT else 0.0, float(fit.df_resid), n)


def _apart(rows: Mapping[str, Units], weights: Mapping[str, float]) -> Difference | None:
    """The contrast by Welch's test, in which each row has its own spread."""
    return welch_contrast([(weight, list(rows[row].values())) for row, weight in weights.items()])


def spread(rows: Mapping[str, Units], row: str, constant: Collection[str] = ()) -> Spread | None:
    """How much pre-trainings of `row` with different seeds differ; None if no row has several pre-trainings.

    The variance is the sum of two components, seeds and errors, each estimated from all rows; degrees of freedom by Satterthwaite's
    formula.

    >>> spread({"a": {0: 71.0, 1: 73.0}}, "a")
    Spread(variance=2.0, freedom=1.0)
    """
    pool = {name: units for name, units in rows.items() if units and name not in constant}
    if row not in pool:
        return None
    if max(map(len, pool.values())) < 2:
        return None
    cells = _cells(pool)
    fit = _fit(cells, is_crossed=False)
    if _spreads_differ(cells, is_crossed=False):
        values = list(pool[row].values())
        return Spread(float(np.var(values, ddof=1)), len(values) - 1.0) if len(values) > 1 else None
    crossed = _fit(cells, is_crossed=True)
    by_seeds = fit.df_resid - crossed.df_resid
    if by_seeds < 1 or crossed.df_resid < 1:
        return Spread(float(fit.ssr / fit.df_resid), float(fit.df_resid))
    # Mean squares, with r rows a seed: of seeds, error + r · seed; of errors, error. So seed + error is the first / r plus the
    # second · (1 − 1/r).
    several = [units for units in pool.values() if len(units) > 1]
    share = len({seed for units in several for seed in units}) / sum(map(len, several))  # 1/r
    parts = share * (fit.ssr - crossed.ssr) / by_seeds, (1 - share) * crossed.ssr / crossed.df_resid
    if sum(parts) < POINT**2:
        return Spread(0.0, float(fit.df_resid))
    doubt = parts[0] ** 2 / by_seeds + parts[1] ** 2 / crossed.df_resid
    return Spread(float(sum(parts)), float(sum(parts) ** 2 / doubt))


def _cells(pool: Mapping[str, Units]) -> Cells:
    return tuple((place, seed, score) for place, units in enumerate(pool.values()) for seed, score in units.items())


@dataclass(frozen=True)
class _Fit:
    """An ordinary least-squares fit.

    Args:
        params: (k,) the effects.
        covariance: (k, k) of the effects, per unit of the errors' variance.
        resid: (n,) what the effects leave.
        df_resid: degrees of freedom of the errors.
    """

    params: NDArray[np.float64]
    covariance: NDArray[np.float64]
    resid: NDArray[np.float64]
    df_resid: int

    @property
    def ssr(self) -> float:
        """Sum of the squared residuals."""
        return float(self.resid @ self.resid)

    def error(self, vector: NDArray[np.float64]) -> float:
        """Standard error of a weighted sum of the effects."""
        return float(vector @ (self.covariance * (self.ssr / self.df_resid)) @ vector) ** 0.5


# Not statsmodels' OLS, which takes 1.4 s of CPU time to import: this is its computation, by the pseudo-inverse of the design.
@lru_cache(maxsize=256)
def _fit(cells: Cells, is_crossed: bool) -> _Fit:
    """Least squares with an effect for each row and, if crossed, each seed but the first. Cached: all pairs of a scale need it."""
    rows = 1 + max(place for place, *_ in cells)
    seeds = sorted({seed for _, seed, _ in cells})[1:] if is_crossed else []
    design = np.zeros((len(cells), rows + len(seeds)))
    for line, (place, seed, _) in enumerate(cells):
        design[line, place] = 1.0
        if seed in seeds:
            design[line, rows + seeds.index(seed)] = 1.0
    scores, inverse = np.asarray([score for *_, score in cells]), np.linalg.pinv(design)
    params = inverse @ scores
    freedom = len(cells) - int(np.linalg.matrix_rank(design))
    return _Fit(params, inverse @ inverse.T, scores - design @ params, freedom)


@lru_cache(maxsize=256)
def _spreads_differ(cells: Cells, is_crossed: bool) -> bool:
    """Whether Brown and Forsythe's test of the residuals rejects equal spreads of the rows that have enough units."""
    residuals: dict[int, list[float]] = {}
    for (place, *_), residual in zip(cells, _fit(cells, is_crossed).resid, strict=True):
        residuals.setdefault(place, []).append(float(residual))
    groups = [group for group in residuals.values() if len(group) >= FEWEST]
    if len(groups) < 2 or max(abs(residual) for group in groups for residual in group) < POINT:
        return False
    return _brown_forsythe(groups) < ALPHA


def _brown_forsythe(groups: Sequence[Sequence[float]]) -> float:
    """p-value of equal spreads: an analysis of variance of the distances from each group's median (scipy's `levene`)."""
    from scipy.special import fdtrc  # scipy.stats takes a second to import

    distances = [np.abs(np.asarray(group) - np.median(group)) for group in groups]
    every = np.concatenate(distances)
    between = sum(len(some) * (some.mean() - every.mean()) ** 2 for some in distances)
    within = sum(float(((some - some.mean()) ** 2).sum()) for some in distances)
    freedom = len(groups) - 1, len(every) - len(groups)
    return float(fdtrc(*freedom, between / freedom[0] / (within / freedom[1]))) if within else float(not between)
