"""Was a printed number reproduced? The verdict on one cell of a table.

    not run      there is no finished run
    reproduced   ours equals the printed number within `bound`: the 90 % interval of the difference lies inside ±bound, which is
                 what two one-sided tests at 0.05 ask
    above        the 95 % interval of the difference lies above zero
    below        … below zero
    undecided    the data allow neither; always so for a single run, whose spread is unknown

They are asked in this order: a difference that is there and too small to matter is a reproduction.

The bound is what the paper's own precision allows: the smallest difference that two runs of its experiment, with its standard
error, would show with probability 0.8 — (1.96 + 0.84)·√2·sem, at least half a point — and one point where it prints no spread. A
standard error printed as 0.0 is below 0.05 and is taken for that.

The difference and its interval:

    mean, printed with error  Welch's test over our seeds
    anything else             statistic of our seeds − printed; normal, with the bootstrap standard error of that statistic. The
                              paper's is taken to be the same, its runs being as many as it says
    printed on the test set   and the sampling errors of two sets of examples of the dev set's size, for ours is of the dev set.
                              Where the server has scored ours, its answer takes its place (one submission, as the paper's is);
                              the spread over seeds is still that of our dev scores
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relpos.tables.statistics import Difference, standard_error, welch

REPRODUCED, ABOVE, BELOW, UNDECIDED, NOT_RUN = "reproduced", "above", "below", "undecided", "not run"
STATISTICS: dict[str, Callable[..., Any]] = {"mean": np.mean, "best": np.max, "median": np.median}
"""How a table sums up the runs of a cell; also the name of the number in `table.json`."""
LEAST_SEM = 0.05
LEAST_BOUND = 0.5
BOUND_WITHOUT_SPREAD = 1.0
WIDE, NARROW, POWER = 1.959964, 1.644854, 0.841621
"""Normal quantiles: 0.975, 0.95 and 0.8."""


@dataclass(frozen=True)
class Printed:
    """What a paper prints in a cell.

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
    values: Sequence[float], printed: Printed, examples_error: float = 0.0, server: float | None = None
) -> Difference | None:
    """Ours − printed; None where there are fewer than two runs.

    Args:
        values: of our runs, × 100.
        printed: the paper's number.
        examples_error: standard error of a score on that many dev examples.
        server: what the GLUE server answered, to compare with a number printed on the test set.
    """
    if len(values) < 2:
        return None
    if printed.sem is not None and printed.statistic == "mean" and not printed.test:
        return welch(values, printed.value, max(printed.sem, LEAST_SEM), printed.runs)
    statistic = STATISTICS[printed.statistic]
    own = standard_error(values, statistic) or 0.0
    theirs = own * (len(values) / printed.runs) ** 0.5 if printed.sem is None else max(printed.sem, LEAST_SEM)
    other_set = 2 * examples_error**2 if printed.test and server is None else 0.0
    error = (own**2 + theirs**2 + other_set) ** 0.5
    value = (float(statistic(values)) if server is None else server) - printed.value
    return _normal(value, error, len(values))


def _normal(value: float, error: float, n: int) -> Difference:
    from scipy.stats import norm

    p = float(2 * norm.sf(abs(value) / error)) if error else float(value == 0)
    return Difference(value, value - WIDE * error, value + WIDE * error, value - NARROW * error, value + NARROW * error, p, n)


def verdict(count: int, found: Difference | None, bound: float) -> str:
    """The verdict on a cell with so many finished runs."""
    if not count:
        return NOT_RUN
    if found is None:
        return UNDECIDED
    if -bound < found.low90 and found.high90 < bound:
        return REPRODUCED
    return ABOVE if found.low > 0 else BELOW if found.high < 0 else UNDECIDED
