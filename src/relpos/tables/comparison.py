"""Compares the numbers of a table with those that are typed, the paper's and the GLUE server's, and with
the baseline row's: the fields of `relpos.tables.table.Column` from `printed` on.

Beside a printed number stands ours minus it. Ours is the mean over pre-trainings of the statistic that the
paper prints of its single one: the mean, best or median over fine-tunings. A number that was measured on
the test set is compared with the GLUE server's score, never with ours on the dev set. Where a row has
several pre-trainings, the printed number lies inside or outside the 95 % interval of our mean. One
pre-training says nothing about others, and the interval of a mean nothing about a best or a median.

Rows that share a baseline are of one scale: how much pre-trainings differ is estimated from all of them,
see `relpos.results.contrast`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from relpos.results import contrast
from relpos.results.gain import between_models
from relpos.results.scale import MEAN, columns_named
from relpos.results.statistics import Difference, holm, of_errors
from relpos.results.values import GLUE, mean_over
from relpos.tables.experiment import Experiment
from relpos.tables.table import Column, Row, scale_of

PrintedRow = Mapping[str, float]
"""Column → the paper's number; `COLUMN_sem` is its standard error."""


def with_comparisons(rows: Sequence[Row], experiment: Experiment, printed: Mapping[str, PrintedRow]) -> list[Row]:
    """The rows of a table, each column with its comparisons, as the experiment's statistic, printed split and baselines say."""
    planned = []
    for row in rows:
        # Without a checkpoint to start from at hand there is no plan, and so no column; its printed numbers are shown all the same.
        names = columns_named(MEAN, printed.get(row.name, {})) if experiment.network else []
        columns = row.columns | {name: Column() for name in names if name not in row.columns}
        planned.append(replace(row, columns=columns, server=experiment.server.get(row.name, {})))
    baselines = [baseline_of(row.name, experiment) for row in planned]
    groups: dict[str, list[Row]] = {}
    for row, baseline in zip(planned, baselines, strict=True):
        # A baseline belongs to the group of the rows that are compared with it.
        groups.setdefault(baseline or (row.name if row.name in experiment.baseline else ""), []).append(row)
    compared = {row.name: _with_printed(row, experiment, printed.get(row.name, {})) for group in groups.values() for row in group}
    return _with_baselines([compared[row.name] for row in planned], baselines, groups)


def _with_printed(row: Row, experiment: Experiment, printed: PrintedRow) -> Row:
    is_comparable = len(row.mean.of) in (0, len(GLUE))  # a mean of fewer columns is not what the paper prints
    own = {MEAN: printed if is_comparable else {}}
    return row.with_numbers({name: _compared(row, name, experiment, own.get(name, printed)) for name in row.numbers})


def _compared(row: Row, name: str, experiment: Experiment, printed: PrintedRow) -> Column:
    """A column of a row, or the mean of its columns, beside the printed number."""
    column = replace(row.numbers[name], printed=printed.get(name), printed_sem=printed.get(f"{name}_sem"))
    if column.printed is None:
        return column
    is_test = experiment.split == "test"
    ours = row.server_score(name) if is_test else _ours(row, name, experiment.statistic)
    several = len({pretraining for pretraining, _ in column.seeds}) > 1
    interval = column.interval if several and not is_test and experiment.statistic == "mean" else None
    return replace(
        column,
        difference=minus(ours, column.printed),
        inside=interval[0] <= column.printed <= interval[1] if interval else None,
    )


def _ours(row: Row, name: str, statistic: str) -> float | None:
    """The mean over pre-trainings of a statistic of the fine-tunings of each."""
    # A best or a median is taken in each column and then averaged; a mean needs no such order.
    parts = [row.numbers[part] for part in (_names(row, name) if statistic != "mean" else [name])]
    if not parts or not all(part.values for part in parts):
        return None
    return fmean(mean_over([seed for seed, _ in part.seeds], part.values, statistic) for part in parts)


def _names(row: Row, name: str) -> list[str]:
    """The columns that a mean is of; of another column the column itself."""
    return row.mean.of if name == MEAN else [name]


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


def baseline_of(name: str, experiment: Experiment) -> str | None:
    """The name of the baseline that shares most overrides with this row, of several the first; None for a baseline, or without any.

    All baselines of the experiment are candidates, also those whose rows were not asked for: otherwise a small model might be
    compared with a large one. The overrides are those of the file: what is typed for all rows makes no other pairs.

    >>> from pathlib import Path
    >>> rows = {"small": ["size=small"], "base": ["size=base"], "base_fixed": ["size=base", "position=fixed"]}
    >>> baseline_of("base_fixed", Experiment(Path(), "?", rows, [], baseline=["small", "base"]))
    'base'
    """
    own = set(experiment.rows.get(name, ()))
    if name in experiment.baseline:
        return None
    return max(experiment.baseline, key=lambda other: len(own.intersection(experiment.rows.get(other, ()))), default=None)


def _with_delta(column: Column, base: Column, test: Difference | None, adjusted: float | None) -> Column:
    # Only where pre-trainings cannot be compared: two models differ more surely than two rows do.
    gain = test or between_models(column.by_seed, base.by_seed)
    delta = gain.value if gain is not None else minus(column.mean, base.mean)
    return replace(
        column,
        delta=delta,
        delta_percent=of_errors(delta, base.mean) if column.is_score and delta is not None and base.mean is not None else None,
        delta_interval=(gain.low, gain.high) if gain is not None else None,
        delta_p=test.p if test is not None else None,
        delta_p_holm=adjusted,
        delta_printed=minus(column.printed, base.printed),
    )


def minus(first: float | None, second: float | None) -> float | None:
    """The difference; None if one of the two is unknown."""
    return None if first is None or second is None else first - second
