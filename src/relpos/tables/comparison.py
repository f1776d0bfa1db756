"""Comparisons of a table's numbers with the paper's, the GLUE server's and the baseline row's.

They are the fields of `relpos.tables.table.Column` from `printed` on.

Beside a printed number stands ours minus it. Ours is the mean over pre-trainings of the statistic
that the paper prints of its single one: the mean, best or median over fine-tunings. A number that
was measured on the test set is compared with the GLUE server's score, never with ours on the dev
set. Where a row has several pre-trainings, the printed number lies inside or outside the 95 %
interval of our mean. One pre-training says nothing about others, and the interval of a mean nothing
about a best or a median.

Rows that share a baseline are of one scale: how much pre-trainings differ is estimated from all of
them, see `relpos.results.contrast`.
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


def with_comparisons(
    rows: Sequence[Row], experiment: Experiment, printed: Mapping[str, PrintedRow]
) -> list[Row]:
    """The rows of a table, each column with its comparisons, by the experiment's statistic, printed
    split and baselines."""
    planned = []
    for row in rows:
        columns = dict(row.columns)
        # Without a checkpoint to start from there is no plan and no column; the printed numbers are
        # shown all the same.
        if experiment.network:
            for name in columns_named(MEAN, printed.get(row.name, {})):
                columns.setdefault(name, Column())
        planned.append(replace(row, columns=columns, server=experiment.server.get(row.name, {})))
    baselines = [baseline_of(row.name, experiment) for row in planned]
    groups: dict[str, list[Row]] = {}
    for row, baseline in zip(planned, baselines, strict=True):
        # A baseline belongs to the group of the rows that are compared with it.
        groups.setdefault(
            baseline or (row.name if row.name in experiment.baseline else ""), []
        ).append(row)
    compared = [_with_printed(row, experiment, printed.get(row.name, {})) for row in planned]
    return _with_baselines(compared, baselines, groups)


def _with_printed(row: Row, experiment: Experiment, printed: PrintedRow) -> Row:
    numbers = {}
    for name in row.numbers:
        # The paper prints the mean of all columns; that of fewer cannot be compared with it.
        is_comparable = name != MEAN or len(row.mean.of) in (0, len(GLUE))
        numbers[name] = _compared(row, name, experiment, printed if is_comparable else {})
    return row.with_numbers(numbers)


def _compared(row: Row, name: str, experiment: Experiment, printed: PrintedRow) -> Column:
    """A column of a row, or the mean of its columns, beside the printed number."""
    column = replace(
        row.numbers[name], printed=printed.get(name), printed_sem=printed.get(f"{name}_sem")
    )
    if column.printed is None:
        return column
    if experiment.split == "test":
        return replace(column, difference=minus(row.server_score(name), column.printed))
    inside = None
    several = len({pretraining for pretraining, _ in column.seeds}) > 1
    if several and experiment.statistic == "mean" and column.interval:
        low, high = column.interval
        inside = low <= column.printed <= high
    ours = _ours(row, name, experiment.statistic)
    return replace(column, difference=minus(ours, column.printed), inside=inside)


def _ours(row: Row, name: str, statistic: str) -> float | None:
    """The mean over pre-trainings of a statistic of each one's fine-tunings."""
    # A best or a median is taken in each column and then averaged; for a mean the order does not
    # matter.
    names = [name] if statistic == "mean" else _names(row, name)
    parts = [row.numbers[part] for part in names]
    if not parts or not all(part.values for part in parts):
        return None
    return fmean(
        mean_over([seed for seed, _ in part.seeds], part.values, statistic) for part in parts
    )


def _names(row: Row, name: str) -> list[str]:
    """The columns of the mean, or the one column of this name."""
    return row.mean.of if name == MEAN else [name]


def _with_baselines(
    rows: Sequence[Row], baselines: Sequence[str | None], groups: Mapping[str, Sequence[Row]]
) -> list[Row]:
    """The rows with differences to their baselines, and p-values that Holm's method adjusts over
    the rows of a column.

    The rows of a column are the family of tests, because a reader looks through them for the best.
    """
    by_name = {row.name: row for row in rows}
    base_of = {
        row.name: by_name.get(baseline or "") for row, baseline in zip(rows, baselines, strict=True)
    }
    numbers = {row.name: dict(row.numbers) for row in rows}
    for name in dict.fromkeys(name for row in rows for name in row.numbers):
        tests: dict[str, Difference] = {}
        for row in rows:
            base = base_of[row.name]
            if name in row.numbers and base and (test := _between(row, base, name, groups)):
                tests[row.name] = test
        adjusted = dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))
        for row in rows:
            if name in row.numbers:
                base = base_of[row.name]
                of_base = base.numbers.get(name, Column()) if base else Column()
                test, p = tests.get(row.name), adjusted.get(row.name)
                numbers[row.name][name] = _with_delta(row.numbers[name], of_base, test, p)
    return [row.with_numbers(numbers[row.name]) for row in rows]


def _between(
    row: Row, base: Row, name: str, groups: Mapping[str, Sequence[Row]]
) -> Difference | None:
    """The difference of two rows, tested over pre-trainings; None if it cannot be tested."""
    scale, columns = scale_of(groups[base.name]), _names(row, name)
    units = scale.by_seed(columns) if columns else {}
    if row.name not in units or base.name not in units:
        return None
    return contrast.difference(units, row.name, base.name, scale.at_constant(columns))


def baseline_of(name: str, experiment: Experiment) -> str | None:
    """The name of the baseline that shares most overrides with a row, the first of several; None
    for a baseline, or without any.

    All baselines of the experiment are candidates, also those whose rows are left out: otherwise a
    small model might be compared with a large one. Overrides of the file count; those typed for all
    rows do not change the pairs.

    >>> from pathlib import Path
    >>> rows = {"small": ["size=small"], "base": ["size=base"], "base_fixed": ["size=base", "position=fixed"]}
    >>> baseline_of("base_fixed", Experiment(Path(), "?", rows, [], baseline=["small", "base"]))
    'base'
    """
    if name in experiment.baseline:
        return None
    overrides = set(experiment.rows.get(name, ()))
    return max(
        experiment.baseline,
        key=lambda base: len(overrides.intersection(experiment.rows.get(base, ()))),
        default=None,
    )


def _with_delta(
    column: Column, base: Column, test: Difference | None, adjusted: float | None
) -> Column:
    column = replace(
        column, delta_p_holm=adjusted, delta_printed=minus(column.printed, base.printed)
    )
    if test:
        column = replace(column, delta_p=test.p)
    # Models are compared only where pre-trainings cannot be: two models differ more surely than two
    # rows.
    if gain := test or between_models(column.by_seed, base.by_seed):
        column = replace(column, delta=gain.value, delta_interval=(gain.low, gain.high))
    else:
        column = replace(column, delta=minus(column.mean, base.mean))
    if column.is_score and column.delta is not None and base.mean is not None:
        column = replace(column, delta_percent=of_errors(column.delta, base.mean))
    return column


def minus(first: float | None, second: float | None) -> float | None:
    """The difference; None if one of the two is unknown."""
    if first is None or second is None:
        return None
    return first - second
