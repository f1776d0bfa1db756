"""Compares the numbers of a table with the paper's and with the baseline row's: the fields of `relpos.tables.table.Column` from
`printed` on.

Rows that share a baseline are of one scale: how much pre-trainings differ is estimated from all of them, see
`relpos.results.contrast`. Was a printed number reproduced? The verdict on one cell of a table:

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
from dataclasses import dataclass, replace
from functools import cache
from math import exp, lgamma, sqrt

import numpy as np

from relpos.results import contrast
from relpos.results.contrast import Spread
from relpos.results.gain import between_models
from relpos.results.scale import MEAN, named
from relpos.results.statistics import ALPHA, FOUND, NOT_RUN, SEED, UNDECIDED, Difference, holm, of_errors
from relpos.results.values import GLUE, by
from relpos.tables.experiment import Experiment
from relpos.tables.table import Column, Row, column_values, mean_if_all, scale_of

REPRODUCED, ABOVE, BELOW = "reproduced", "above", "below"
STATISTICS: dict[str, Callable[..., object]] = {"mean": np.mean, "best": np.max, "median": np.median}
"""How a table sums up the runs of a cell; the names are those of the numbers in `table.json`."""
LEAST_SEM = 0.05
LEAST_BOUND = 0.5
BOUND_WITHOUT_SPREAD = 1.0
DRAWS = 100_000
PrintedRow = Mapping[str, float]
"""Column → the paper's number; `COLUMN_sem` is its standard error."""


def with_comparisons(rows: Sequence[Row], experiment: Experiment, printed: Mapping[str, PrintedRow]) -> list[Row]:
    """The rows of a table, each column with its comparisons, as the experiment's statistic, printed split and baselines say."""
    planned = []
    for row in rows:
        # Without a checkpoint to start from at hand there is no plan, and so no column; its printed numbers are shown all the same.
        names = named(MEAN, printed.get(row.name, {})) if experiment.network else []
        columns = row.columns | {name: Column() for name in names if name not in row.columns}
        planned.append(replace(row, columns=columns, server=experiment.server.get(row.name, {})))
    overrides: dict[str, Sequence[str]] = {name: experiment.rows.get(name, ()) for name in experiment.baseline}
    baselines = [baseline_of(row, overrides) for row in planned]
    groups: dict[str, list[Row]] = {}
    for row, baseline in zip(planned, baselines, strict=True):
        # A baseline belongs to the group of the rows that are compared with it.
        groups.setdefault(baseline or (row.name if row.name in overrides else ""), []).append(row)
    compared = {
        row.name: _with_printed(row, group, experiment, printed.get(row.name, {})) for group in groups.values() for row in group
    }
    return _with_baselines([compared[row.name] for row in planned], baselines, groups)


def _with_printed(row: Row, group: Sequence[Row], experiment: Experiment, printed: PrintedRow) -> Row:
    is_comparable = len(row.mean.of) in (0, len(GLUE))  # a mean of fewer columns is not what the paper prints
    known = {MEAN: printed if is_comparable else {}}
    return row.with_numbers({name: _compared(row, name, group, experiment, known.get(name, printed)) for name in row.numbers})


def _compared(row: Row, name: str, group: Sequence[Row], experiment: Experiment, printed: PrintedRow) -> Column:
    """A column of a row, or the mean of its columns, compared with the printed number."""
    # Of an earlier comparison nothing stays: a column that is not judged has no verdict.
    column = replace(row.numbers[name], difference=None, difference_interval=None, verdict=None)
    column = replace(column, printed=printed.get(name), printed_sem=printed.get(f"{name}_sem"))
    if column.printed is None:
        return column
    server = row.server_score(name) if experiment.split == "test" else None
    if (
        experiment.split == "test" and server is None
    ):  # ours is a dev score, theirs a test score: only differences to the baseline compare
        return column if column.values else replace(column, verdict=NOT_RUN)
    paper = Printed(column.printed, column.printed_sem, experiment.printed_runs, experiment.statistic)
    units = {of_group.name: _units(of_group, name, paper) for of_group in group if name in of_group.numbers}
    # Seeds make no difference to a constant answer: such rows would make the pooled spread too small.
    spread = contrast.spread(units, row.name, scale_of(group).at_constant(_names(row, name)))
    tested = difference(units[row.name], paper, spread, server)
    # A best as it is: what it would be among as many runs as the paper's is for the test alone.
    ours = server if server is not None else mean_if_all([*_units(row, name, replace(paper, runs=None)).values()])
    return replace(
        column,
        difference=ours - paper.value if ours is not None else None,
        difference_interval=(tested.low, tested.high) if tested else None,
        verdict=verdict(len(column.values), tested, paper.bound(spread)),
    )


def _names(row: Row, name: str) -> list[str]:
    """The columns that a mean is of; of another column the column itself."""
    return row.mean.of if name == MEAN else [name]


def _units(row: Row, name: str, paper: Printed) -> dict[int, float]:
    """Pre-training seed → its number to compare with a printed one."""
    # A best or a median is taken in each column and then averaged, as `columns` does; for a mean the order makes no difference.
    parts = [row.columns[part] for part in _names(row, name)] if paper.statistic != "mean" else []
    values = [by(column_values(name, part), "pretrain_seed") for part in parts or [row.numbers[name]]]
    by_part = [{seed: [each.value for each in found] for seed, found in of_part.items()} for of_part in values]
    shared = [seed for seed in by_part[0] if all(seed in scores for scores in by_part)]
    # Each seed has its own statistic, so that the spread over seeds is that of the statistic.
    units = {seed: unit([scores[seed] for scores in by_part], paper.statistic, paper.runs) for seed in shared}
    return {seed: value for seed, value in units.items() if value is not None}


def _with_baselines(rows: Sequence[Row], baselines: Sequence[str | None], groups: Mapping[str, Sequence[Row]]) -> list[Row]:
    """The rows with differences to their baselines; Holm's correction is over the rows of a column."""
    by_name = {row.name: row for row in rows}
    compared: dict[str, dict[str, Column]] = {row.name: {} for row in rows}
    pairs = [(row, by_name.get(baseline or "")) for row, baseline in zip(rows, baselines, strict=True)]
    for name in dict.fromkeys(name for row in rows for name in row.numbers):
        places = [(row, base) for row, base in pairs if name in row.numbers]
        tests = [_between(row, base, name, groups) if base is not None else None for row, base in places]
        # Over the rows of one column, the family that a reader looks through for the best.
        adjusted = iter(holm([test.p for test in tests if test is not None]))
        for (row, base), test in zip(places, tests, strict=True):
            column = base.numbers.get(name, Column()) if base is not None else Column()
            compared[row.name][name] = _with_delta(row.numbers[name], column, test, next(adjusted) if test else None)
    return [row.with_numbers(compared[row.name]) for row in rows]


def _between(row: Row, base: Row, name: str, groups: Mapping[str, Sequence[Row]]) -> Difference | None:
    """The difference of two rows, tested over pre-trainings; None if it cannot be tested."""
    scale, columns = scale_of(groups[base.name]), _names(row, name)
    units = scale.by_seed(columns) if columns else {}
    if row.name not in units or base.name not in units:
        return None
    return contrast.difference(units, row.name, base.name, scale.at_constant(columns))


def baseline_of(row: Row, baselines: Mapping[str, Sequence[str]]) -> str | None:
    """The name of the baseline that shares most overrides with this row, of several the first; None for a baseline, or without any.

    All baselines of the experiment are candidates, also those whose rows were not asked for: otherwise a small model might be
    compared with a large one.

    >>> baselines = {"small": ["size=small", "position=absolute"], "base": ["size=base", "position=absolute"]}
    >>> baseline_of(Row("base_fixed", overrides=["size=base", "position=fixed"]), baselines)
    'base'
    """
    if row.name in baselines:
        return None
    return max(baselines, key=lambda name: len(set(baselines[name]) & set(row.overrides)), default=None)


def _with_delta(column: Column, base: Column, test: Difference | None, adjusted: float | None) -> Column:
    # Only where pre-trainings cannot be compared: two models differ more surely than two rows do.
    known = test or between_models(column.by_seed, base.by_seed)
    delta = known.value if known is not None else minus(column.mean, base.mean)
    return replace(
        column,
        delta=delta,
        delta_percent=of_errors(delta, base.mean) if column.is_score and delta is not None and base.mean is not None else None,
        delta_interval=(known.low, known.high) if known is not None else None,
        delta_p=test.p if test is not None else None,
        delta_p_holm=adjusted,
        delta_printed=minus(column.printed, base.printed),
    )


def minus(first: float | None, second: float | None) -> float | None:
    """The difference; None if one of the two is unknown."""
    return None if first is None or second is None else first - second


@dataclass(frozen=True)
class Printed:
    """A printed number of a paper.

    >>> Printed(84.9, sem=0.0).bound(None), Printed(75.2).bound(None)
    (0.5, 1.0)

    Args:
        value: the number, × 100.
        sem: its standard error; None where none is printed.
        runs: how many runs it sums up; None where that is to make no difference.
        statistic: mean, best or median of them.
    """

    value: float
    sem: float | None = None
    runs: int | None = 10
    statistic: str = "mean"

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


def unit(columns: Sequence[Sequence[float]], statistic: str, printed_runs: int | None) -> float | None:
    """A pre-training's number to compare with one that sums up so many printed runs, or with None as it is: a statistic over its
    fine-tunings in each of the columns, averaged over these.

    None for a best of fewer than two runs that cannot be corrected for their number.

    >>> unit([[70.0, 72.0]], "mean", printed_runs=10), unit([[70.0]], "best", printed_runs=10)
    (71.0, None)
    """
    # In each column first: the paper's mean over columns is one of numbers that were summed up like this.
    values = [sum_up(scores, statistic) for scores in columns]
    if statistic == "best" and printed_runs is not None:
        if min(map(len, columns)) < 2:
            return None
        values = [
            value + _deviation(scores) * (_expected_best(printed_runs) - _expected_best(len(scores)))
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
def _expected_best(n: int) -> float:
    """Mean of the best of n independent standard normal numbers."""
    return float(np.random.default_rng(SEED).standard_normal((DRAWS, n)).max(axis=1).mean())


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
