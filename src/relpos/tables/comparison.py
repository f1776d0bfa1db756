"""Comparisons of a table's numbers with the paper's, the GLUE server's and the baseline row's.

These are the fields of `relpos.tables.table.Column` from `printed` on; the last are differences to
a row that was not pre-trained.

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
from typing import NamedTuple

from relpos.measures.measure import measured_columns
from relpos.results.gain import between_models, estimated
from relpos.results.scale import MEAN, Scale, columns_named
from relpos.results.statistics import Difference, Interval, holm, of_errors
from relpos.results.values import GLUE, mean_over
from relpos.tables.experiment import Experiment
from relpos.tables.table import Column, Row, scale_of

UNTRAINED = "pretrain.steps=0"
"""The override of a row whose fine-tunings begin at initial weights: what the others have above it,
their pre-training has taught them."""
PrintedRow = Mapping[str, float]
"""Column → the paper's number; `COLUMN_sem` is its standard error."""


def with_comparisons(
    rows: Sequence[Row],
    experiment: Experiment,
    printed: Mapping[str, PrintedRow],
) -> list[Row]:
    """The rows of a table, each column with its comparisons, by the experiment's statistic, printed
    split and baselines."""
    compared = []
    groups: dict[str, list[Row]] = {}
    for row in rows:
        of_paper, columns = printed.get(row.name, {}), row.columns
        # Without a checkpoint to start from there is no plan and no column; the printed numbers are
        # shown all the same.
        if experiment.network:
            missing = columns_named(MEAN, of_paper.keys() - columns.keys())
            columns = columns | dict.fromkeys(missing, Column())
        row = replace(row, columns=columns, server=experiment.server.get(row.name, {}))
        row = _with_printed(row, experiment, of_paper)
        compared.append(row)
        # A baseline belongs to the group of the rows that are compared with it.
        groups.setdefault(baseline_of(row.name, experiment) or row.name, []).append(row)
    return _with_learnt(_with_baselines(compared, groups))


def _with_printed(row: Row, experiment: Experiment, printed: PrintedRow) -> Row:
    """A row, its columns and their mean beside the printed numbers."""
    numbers = row.numbers
    for name, column in numbers.items():
        # The paper prints the mean of all columns; that of fewer cannot be compared with it.
        if name not in printed or (name == MEAN and len(row.mean.of) not in (0, len(GLUE))):
            continue
        of_paper = printed[name]
        ours, inside = row.server_score(name), None
        if experiment.split == "dev":
            ours = _ours(row, name, experiment.statistic)
            several = len({pretraining for pretraining, _ in column.seeds}) > 1
            if several and experiment.statistic == "mean" and column.interval:
                low, high = column.interval
                inside = low <= of_paper <= high
        numbers[name] = replace(
            column,
            printed=of_paper,
            printed_sem=printed.get(f"{name}_sem"),
            difference=minus(ours, of_paper),
            inside=inside,
        )
    return row.with_numbers(numbers)


def _ours(row: Row, name: str, statistic: str) -> float | None:
    """The mean over pre-trainings of a statistic of each one's fine-tunings."""
    # A best or a median is taken in each column and then averaged; for a mean the order does not
    # matter.
    names = [name] if statistic == "mean" else columns_named(name, row.mean.of)
    parts = [row.numbers[part] for part in names]
    if not parts or not all(part.values for part in parts):
        return None
    return fmean(mean_over(part.by_seed, statistic) for part in parts)


class Lead(NamedTuple):
    """What a row has above another one in a column.

    Args:
        ours: the column of the row; `theirs` that of the other one.
        value: the difference; None where a row has no score.
        interval: 95 %, over pre-trainings if their spread is known, else over fine-tunings.
        test: the difference over pre-trainings.
    """

    ours: Column
    theirs: Column
    value: float | None
    interval: Interval | None = None
    test: Difference | None = None


def _lead(scale: Scale, row: Row, base: Row, name: str) -> Lead:
    ours, theirs = row.numbers[name], base.numbers.get(name, Column())
    columns = columns_named(name, row.mean.of)
    _, test = estimated(scale, {row.name: 1.0, base.name: -1.0}, columns)
    # Models are compared only where pre-trainings cannot be: two models differ more surely than two
    # rows.
    gain = test or between_models(ours.by_seed, theirs.by_seed)
    if gain is None:
        return Lead(ours, theirs, minus(ours.mean, theirs.mean))
    return Lead(ours, theirs, gain.value, (gain.low, gain.high), test)


def _with_baselines(rows: Sequence[Row], groups: Mapping[str, Sequence[Row]]) -> list[Row]:
    """The rows with differences to their baselines, and p-values that Holm's method adjusts over
    the rows of a column.

    The rows of a column are the family of tests, because a reader looks through them for the best.
    """
    by_name = {row.name: row for row in rows}
    compared = {row.name: row.numbers for row in rows}
    leads: dict[str, dict[str, Lead]] = {}
    for base, group in groups.items():
        if base not in by_name:
            continue
        scale = scale_of(group)
        for row in group:
            for column in compared[row.name]:
                if row.name != base:
                    lead = _lead(scale, row, by_name[base], column)
                    leads.setdefault(column, {})[row.name] = lead
    for column, of_column in leads.items():
        tests = {name: lead.test.p for name, lead in of_column.items() if lead.test}
        adjusted = dict(zip(tests, holm([*tests.values()]), strict=True))
        for name, (ours, theirs, gain, interval, _) in of_column.items():
            percent = None
            if ours.is_score and gain is not None and theirs.mean is not None:
                percent = of_errors(gain, theirs.mean)
            compared[name][column] = replace(
                ours,
                delta=gain,
                delta_percent=percent,
                delta_interval=interval,
                delta_p=tests.get(name),
                delta_p_holm=adjusted.get(name),
                delta_printed=minus(ours.printed, theirs.printed),
            )
    return [row.with_numbers(compared[row.name]) for row in rows]


def _with_learnt(rows: list[Row]) -> list[Row]:
    """The rows with differences to the one that was not pre-trained, if there is one."""
    control = next((row for row in rows if UNTRAINED in row.overrides), None)
    if control is None:
        return rows
    scale = scale_of(rows)
    names = control.columns.keys() - measured_columns().keys()
    result = []
    for row in rows:
        columns = dict(row.columns)
        if row is not control:
            for name in columns.keys() & names:
                ours, _, gain, interval, _ = _lead(scale, row, control, name)
                columns[name] = replace(ours, learnt=gain, learnt_interval=interval)
        result.append(replace(row, columns=columns))
    return result


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


def minus(first: float | None, second: float | None) -> float | None:
    """The difference; None if one of the two is unknown."""
    if first is None or second is None:
        return None
    return first - second
