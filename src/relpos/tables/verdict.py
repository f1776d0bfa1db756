"""Was a printed number reproduced? The verdict on one cell of a table.

    not run      no run is finished
    reproduced   ours equals the printed number within `bound`: the 90 % interval of the difference lies inside ±bound (two
                 one-sided tests at 0.05)
    above        the 95 % interval of the difference lies above zero
    below        … below zero
    undecided    none of these is shown; always so for a single run, whose spread is unknown

The first that applies is the verdict: a difference that is significant but too small to matter is a reproduction.

The bound follows from the paper's own precision: the smallest difference that two runs of its experiment, with its standard
error, would show with probability 0.8 — (1.96 + 0.84)·√2·sem, at least half a point — and one point where it prints no spread. A
standard error that is printed as 0.0 counts as 0.05, the largest that rounds to it.

The difference and its interval:

    mean, printed with error  Welch's test over our seeds
    anything else             the statistic of our runs − printed, corrected for the number of runs: the best of three is expected
                              to be lower than the best of ten. Runs are assumed to be normal with the spread of ours, the paper's
                              too, as many as it says; t-distribution
    GLUE as best or median    the mean of the columns' statistics, as a submission is made of the best run of each task
    printed on the test set   as above, and the sampling errors of two sets of examples of the dev set's size are added, for ours
                              is measured on the dev set. Where the server has scored ours, its score takes the place of ours
                              (one submission, as the paper's is); the spread over seeds is still that of our dev scores
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from relpos.tables.statistics import SEED, Difference, Statistic, welch, with_intervals

REPRODUCED, ABOVE, BELOW, UNDECIDED, NOT_RUN = "reproduced", "above", "below", "undecided", "not run"
HOLDS, FAILS = "holds", "fails"
"""Of a check or a claim, beside `UNDECIDED` and `NOT_RUN`."""
STATISTICS: dict[str, Statistic] = {"mean": np.mean, "best": np.max, "median": np.median}
"""How a table sums up the runs of a cell; the names are those of the numbers in `table.json`."""
LEAST_SEM = 0.05
LEAST_BOUND = 0.5
BOUND_WITHOUT_SPREAD = 1.0
WIDE, POWER = 1.959964, 0.841621
"""Normal quantiles: 0.975 and 0.8."""
DRAWS = 100_000


@dataclass(frozen=True)
class Printed:
    """What a paper prints in a cell.

    >>> Printed(84.9, sem=0.0).bound, Printed(75.2).bound
    (0.5, 1.0)

    Args:
        value: the number, × 100.
        sem: its standard error; None where none is printed.
        runs: how many runs it sums up.
        statistic: mean, best or median of them.
        test: it was measured on the test set.
    """

    value: float
    sem: float | None = None
    runs: int = 10
    statistic: str = "mean"
    test: bool = False

    @property
    def bound(self) -> float:
        """Differences within ±bound count as none."""
        if self.sem is None:
            return BOUND_WITHOUT_SPREAD
        return max(LEAST_BOUND, (WIDE + POWER) * 2**0.5 * max(self.sem, LEAST_SEM))


def difference(
    columns: Sequence[Sequence[float]], printed: Printed, examples_error: float = 0.0, server: float | None = None
) -> Difference | None:
    """Ours − printed; None where a column has fewer than two runs, or two that are equal, so that its spread is unknown.

    Args:
        columns: the scores of our runs, × 100; several where the printed number is the mean over columns of a best or a median.
        printed: the paper's number.
        examples_error: standard error of a score on that many dev examples.
        server: what the GLUE server answered, to compare with a number printed on the test set.

    >>> difference([[71.0, 72.0, 73.0]], Printed(70.0, sem=0.5)).value
    2.0
    """
    if not columns or any(len(values) < 2 or (len(values) == 2 and values[0] == values[1]) for values in columns):
        return None
    if printed.sem is not None and printed.statistic == "mean" and not printed.test:
        (values,) = columns
        return welch(values, printed.value, max(printed.sem, LEAST_SEM), printed.runs)
    spreads = [float(np.std(values, ddof=1)) / len(columns) for values in columns]
    of_ours = [_of_normals(printed.statistic, len(values)) for values in columns]
    printed_mean, printed_deviation = _of_normals(printed.statistic, printed.runs)
    by_number = sum(spread * (mean - printed_mean) for spread, (mean, _) in zip(spreads, of_ours, strict=True))
    ours = float(np.mean([STATISTICS[printed.statistic](values) for values in columns])) if server is None else server
    theirs = printed_deviation**2 if printed.sem is None else 0.0
    parts = [spread**2 * (deviation**2 + theirs) for spread, (_, deviation) in zip(spreads, of_ours, strict=True)]
    known = max(printed.sem, LEAST_SEM) ** 2 if printed.sem is not None else 0.0
    known += 2 * examples_error**2 if printed.test and server is None else 0.0
    return _by_t(ours - printed.value - by_number, parts, known, [len(values) for values in columns])


def _by_t(value: float, parts: Sequence[float], known: float, counts: Sequence[int]) -> Difference:
    """A difference with its interval by the t-distribution, its degrees of freedom by Welch and Satterthwaite.

    Args:
        value: the difference.
        parts: squared errors that were estimated, each from so many runs as `counts` says.
        known: squared errors that were not estimated from our runs.
    """
    from scipy.stats import t

    error = (sum(parts) + known) ** 0.5
    doubt = sum(part**2 / (n - 1) for part, n in zip(parts, counts, strict=True))
    freedom = error**4 / doubt if doubt else np.inf
    p = float(2 * t.sf(abs(value) / error, freedom)) if error else float(value == 0)
    return with_intervals(value, error, freedom, p, min(counts))


@cache
def _of_normals(statistic: str, n: int) -> tuple[float, float]:
    """Mean and standard deviation of a statistic of n independent standard normal numbers."""
    drawn = np.asarray(STATISTICS[statistic](np.random.default_rng(SEED).standard_normal((DRAWS, n)), axis=1))
    return float(drawn.mean()) if statistic == "best" else 0.0, float(drawn.std())


def verdict(count: int, tested: Difference | None, bound: float) -> str:
    """The verdict on a cell with so many finished runs.

    >>> verdict(0, None, 0.5), verdict(1, None, 0.5)
    ('not run', 'undecided')
    >>> verdict(3, Difference(2.0, low=1.0, high=3.0, low90=1.2, high90=2.8, p=0.01, n=3), 0.5)
    'above'
    """
    if not count:
        return NOT_RUN
    if tested is None:
        return UNDECIDED
    if -bound < tested.low90 and tested.high90 < bound:
        return REPRODUCED
    return ABOVE if tested.low > 0 else BELOW if tested.high < 0 else UNDECIDED
