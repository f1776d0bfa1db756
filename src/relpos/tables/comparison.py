"""Compares the numbers of a table with the paper's and with the baseline row's.

The results are the fields of `relpos.tables.row.Column` from `printed` on. Rows that share a baseline are of one scale: how much
pre-trainings differ is estimated from all of them, see `relpos.results.contrast`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from relpos.results import contrast
from relpos.results.contrast import Spread
from relpos.results.scale import MEAN, named
from relpos.results.statistics import Difference, holm, paired
from relpos.results.values import GLUE
from relpos.tables.experiment import Experiment
from relpos.tables.printed import Printed, difference, unit, verdict
from relpos.tables.row import Column, Row, scale_of

PrintedRow = Mapping[str, float]
"""Column → the paper's number; `COLUMN_sem` is its standard error."""


def with_comparisons(rows: Sequence[Row], experiment: Experiment, printed: Mapping[str, PrintedRow]) -> list[Row]:
    """The rows of a table, each column with its comparisons, as the experiment's statistic, printed split and baselines say."""
    planned = [_with_planned(row, experiment, printed.get(row.name, {})) for row in rows]
    overrides: dict[str, Sequence[str]] = {name: experiment.rows.get(name, ()) for name in experiment.baseline}
    # As the rows have them: under `relpos record-scores` the file may have changed since the table was made.
    overrides |= {row.name: row.overrides for row in planned if row.name in overrides}
    baselines = [baseline_of(row, overrides) for row in planned]
    groups: dict[str, list[Row]] = {}
    for row, baseline in zip(planned, baselines, strict=True):
        # A baseline belongs to the group of the rows that are compared with it.
        groups.setdefault(baseline or (row.name if row.name in overrides else ""), []).append(row)
    compared = {
        row.name: _with_printed(row, group, experiment, printed.get(row.name, {})) for group in groups.values() for row in group
    }
    return _with_baselines([compared[row.name] for row in planned], baselines, groups)


def _with_planned(row: Row, experiment: Experiment, printed: PrintedRow) -> Row:
    """The row with an empty column for each printed one that it lacks, if the table starts from a checkpoint.

    Without the checkpoint at hand there is no plan, and so no column; the printed numbers are shown all the same.
    """
    missing = [name for name in named(MEAN, printed) if name not in row.columns] if experiment.network else []
    return replace(row, columns=row.columns | {name: Column() for name in missing})


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
    is_test = experiment.split == "test"
    paper = Printed(column.printed, column.printed_sem, experiment.printed_runs, experiment.statistic, is_test)
    units = {of_group.name: _units(of_group, name, paper) for of_group in group if name in of_group.numbers}
    # Seeds make no difference to a constant answer: such rows would make the pooled spread too small.
    spread = contrast.spread(units, row.name, scale_of(group).at_constant(_names(row, name)))
    return _judged(column, units[row.name], paper, spread)


def _judged(column: Column, units: contrast.Units, paper: Printed, spread: Spread | None) -> Column:
    if paper.test and column.test is None:  # ours is a dev score, theirs a test score: only differences to the baseline compare
        return column if column.values else replace(column, verdict=verdict(0, None, 0.0))
    server = column.test if paper.test else None
    tested = difference(units, paper, spread, server)
    ours: float | None = server if server is not None else getattr(column, paper.statistic)
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
    by_part = [_by_pretraining(part) for part in parts or [row.numbers[name]]]
    shared = [seed for seed in by_part[0] if all(seed in scores for scores in by_part)]
    # Each seed has its own statistic, so that the spread over seeds is that of the statistic.
    units = {seed: unit([scores[seed] for scores in by_part], paper.statistic, paper.runs) for seed in shared}
    return {seed: value for seed, value in units.items() if value is not None}


def _by_pretraining(column: Column) -> dict[int, list[float]]:
    """Pre-training seed → scores of its fine-tunings."""
    scores: dict[int, list[float]] = {}
    for (seed, _), value in column.by_seed.items():
        scores.setdefault(seed, []).append(value)
    return scores


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
            column = base.numbers.get(name) if base is not None else None
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


def _with_delta(column: Column, base: Column | None, test: Difference | None, adjusted: float | None) -> Column:
    means = (column.mean, base.mean) if base is not None else (None, None)
    printed = (column.printed, base.printed) if base is not None else (None, None)
    # Only where pre-trainings cannot be compared: two models differ more surely than two rows do.
    known = test or (between_models(column, base) if base is not None else None)
    delta = known.value if known is not None else minus(*means)
    # Per cent of the errors: 90 → 95 halves them, as 50 → 75 does, though the points differ.
    rest = 100 - base.mean if base is not None and base.mean is not None else 0.0
    return replace(
        column,
        delta=delta,
        delta_percent=100 * delta / rest if delta is not None and rest > 0 and column.is_score else None,
        delta_interval=(known.low, known.high) if known is not None else None,
        delta_p=test.p if test is not None else None,
        delta_p_holm=adjusted,
        delta_printed=minus(*printed),
    )


def minus(first: float | None, second: float | None) -> float | None:
    """The difference; None if one of the two is unknown."""
    return None if first is None or second is None else first - second


def between_models(column: Column, base: Column) -> Difference | None:
    """The difference of two models, one pre-training each, paired over their fine-tuning seeds.

    None for rows of several pre-trainings. It says nothing about other pre-trainings of these two rows.

    >>> first, second = Column(values=[71.0, 73.0], seeds=[(0, 0), (0, 1)]), Column(values=[70.0, 71.0], seeds=[(0, 0), (0, 1)])
    >>> between_models(first, second).value
    1.5
    """
    if max(len({seed for seed, _ in each.seeds}) for each in (column, base)) > 1:
        return None
    ours, theirs = ({seed: value for (_, seed), value in each.by_seed.items()} for each in (column, base))
    shared = [seed for seed in ours if seed in theirs]
    return paired([ours[seed] for seed in shared], [theirs[seed] for seed in shared])
