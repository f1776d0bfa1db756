"""Was a printed number reproduced? The verdict on one cell of a table.

    not run      no run is finished
    reproduced   ours equals the printed number within `bound`: the 90 % interval of the difference lies inside ±bound (two
                 one-sided tests at 0.05)
    above        the 95 % interval of the difference lies above zero
    below        … below zero
    undecided    none of these is shown; always so if the rows do not show how much pre-trainings differ
    (none)       the number was measured on the test set, and the server has not scored ours: a dev score cannot be compared with
                 it, but the difference to the baseline row can be compared with the printed difference

The first that applies is the verdict: a difference that is significant but too small to matter is a reproduction.

The bound follows from the precision of the experiment: it is the smallest difference that two repetitions, pre-training included,
would show with probability 0.8: (1.96 + 0.84)·√2·error, but at least half a point, or one point if the paper prints no spread. The
error is the printed one or the spread between our pre-trainings, whichever is larger. A standard error that is printed as 0.0
counts as 0.05, the largest that rounds to it.

Ours is the mean over pre-trainings of the statistic that the paper prints of its single one: the mean, best or median over
fine-tunings. The best of three is expected to be lower than the best of ten, and is corrected for that; scores of fine-tunings are
taken to be normally distributed. A printed standard error is over fine-tunings. But the paper's number comes from one pre-training,
and another would have given another number. So its error is the spread between pre-trainings that our rows show, by
`contrast.spread`, or the printed one if that is larger; with the printed error alone, half of all faithful reproductions would be
called different.
If the server has scored ours, its score takes the place of ours: one submission, as the paper's is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, lgamma, sqrt

import numpy as np

from relpos.results.contrast import Spread
from relpos.results.statistics import ALPHA, FOUND, NOT_RUN, SEED, UNDECIDED, Difference

REPRODUCED, ABOVE, BELOW = "reproduced", "above", "below"
STATISTICS: dict[str, Callable[..., object]] = {"mean": np.mean, "best": np.max, "median": np.median}
"""How a table sums up the runs of a cell; the names are those of the numbers in `table.json`."""
LEAST_SEM = 0.05
LEAST_BOUND = 0.5
BOUND_WITHOUT_SPREAD = 1.0
DRAWS = 100_000


@dataclass(frozen=True)
class Printed:
    """A printed number of a paper.

    >>> Printed(84.9, sem=0.0).bound(None), Printed(75.2).bound(None)
    (0.5, 1.0)

    Args:
        value: the number, × 100.
        sem: its standard error; None where none is printed.
        runs: how many runs it sums up.
        statistic: mean, best or median of them.
        test: whether it was measured on the test set.
    """

    value: float
    sem: float | None = None
    runs: int = 10
    statistic: str = "mean"
    test: bool = False

    def error(self, spread: Spread | None) -> float:
        """Standard error of the number, including that of its single pre-training as far as ours show it."""
        # A printed 0.0 is rounded: taken as zero it would make differences look surer than they are.
        printed = max(self.sem, LEAST_SEM) if self.sem is not None else 0.0
        return max(printed, spread.variance**0.5 if spread else 0.0)

    def bound(self, spread: Spread | None) -> float:
        """Differences within ±bound count as none; `spread` is that between our pre-trainings."""
        least = BOUND_WITHOUT_SPREAD if self.sem is None else LEAST_BOUND
        return max(least, FOUND * 2**0.5 * self.error(spread))


def sum_up(scores: Sequence[float], statistic: str) -> float:
    """The mean, best or median of some scores."""
    return float(np.asarray(STATISTICS[statistic](scores)))


def unit(columns: Sequence[Sequence[float]], statistic: str, printed_runs: int) -> float | None:
    """A pre-training's number to compare with one that sums up so many printed runs: a statistic over its fine-tunings in each of
    the columns, averaged over these.

    None for a best of fewer than two runs, which cannot be corrected for their number.

    >>> unit([[70.0, 72.0]], "mean", printed_runs=10), unit([[70.0]], "best", printed_runs=10)
    (71.0, None)
    """
    # In each column first: the paper's mean over columns is one of numbers that were summed up like this.
    values = [sum_up(scores, statistic) for scores in columns]
    if statistic == "best":
        if min(map(len, columns)) < 2:
            return None
        values = [
            value + _deviation(scores) * (_expected(statistic, printed_runs) - _expected(statistic, len(scores)))
            for value, scores in zip(values, columns, strict=True)
        ]
    return float(np.mean(values))


def difference(
    units: Mapping[int, float], printed: Printed, spread: Spread | None, server: float | None = None
) -> Difference | None:
    """Ours − printed; None without pre-trainings, or if it is not known how much these differ.

    >>> difference({0: 71.0, 1: 72.0, 2: 73.0}, Printed(70.0, sem=0.5), Spread(1.0, freedom=2.0)).value
    2.0

    Args:
        units: pre-training seed → its number, see `unit`.
        server: the GLUE server's score, which is of one pre-training, to compare with a number measured on the test set.
    """
    if not units or spread is None:
        return None
    ours = float(np.mean(list(units.values()))) if server is None else server
    # The server scores a single submission, which no further pre-training makes surer.
    of_ours = spread.variance / (len(units) if server is None else 1)
    return Difference(ours - printed.value, (of_ours + printed.error(spread) ** 2) ** 0.5, spread.freedom, len(units))


def _deviation(values: Sequence[float]) -> float:
    """Standard deviation of normal numbers; division by c₄ removes the bias that s has in small samples."""
    n = len(values)
    return float(np.std(values, ddof=1)) / (sqrt(2 / (n - 1)) * exp(lgamma(n / 2) - lgamma((n - 1) / 2)))


@cache
def _expected(statistic: str, n: int) -> float:
    """Mean of a statistic of n independent standard normal numbers."""
    drawn = np.asarray(STATISTICS[statistic](np.random.default_rng(SEED).standard_normal((DRAWS, n)), axis=1))
    return float(drawn.mean())


def verdict(count: int, tested: Difference | None, bound: float) -> str:
    """The verdict on a cell with `count` finished pre-trainings.

    >>> verdict(0, None, 0.5), verdict(1, None, 0.5)
    ('not run', 'undecided')
    >>> verdict(3, Difference(2.0, error=0.5, freedom=10.0, n=3), 0.5)
    'above'
    """
    if not count:
        return NOT_RUN
    if tested is None:
        return UNDECIDED
    # Before above and below: a difference may be sure and still too small to matter.
    if tested.p_inside(-bound, bound) < ALPHA:
        return REPRODUCED
    return ABOVE if tested.low > 0 else BELOW if tested.high < 0 else UNDECIDED
