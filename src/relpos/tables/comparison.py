"""What the numbers of a table are compared with: the paper's, and the baseline row's; and how small a difference would show.

The results are the fields of `relpos.tables.row.Column` from `statistic` on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import hypot

import numpy as np

from relpos.tables.columns import GLUE, mean_of, means_by
from relpos.tables.experiment import Experiment
from relpos.tables.row import Column, Detectable, Row
from relpos.tables.statistics import (
    Difference,
    detectable_by_examples,
    detectable_by_seeds,
    holm,
    independent,
    paired,
    standard_error,
)
from relpos.tables.verdict import Printed, difference, verdict

PrintedRow = Mapping[str, float]
"""Column → the paper's number; `COLUMN_sem` is its standard error."""


def with_comparisons(rows: Sequence[Row], experiment: Experiment, printed: Mapping[str, PrintedRow]) -> list[Row]:
    """The rows of a table, each column with what it is compared with.

    Args:
        rows: of `columns.rows_of`, with the server's scores where there are any.
        experiment: says the statistic, the printed split and the baseline rows.
        printed: of each row.
    """
    return _with_baselines([_with_printed(row, experiment, printed.get(row.name, {})) for row in rows], experiment)


def _with_printed(row: Row, experiment: Experiment, printed: PrintedRow) -> Row:
    not_planned = [name for name in mean_of(printed) if name not in row.columns] if experiment.needs else []
    columns = {
        name: _compared(column, name, experiment, printed, _examples_error(column))
        for name, column in (row.columns | {name: Column() for name in not_planned}).items()
    }
    parts = [columns[name] for name in row.mean.of]
    errors = [error for part in parts if (error := _examples_error(part)) is not None]
    error = hypot(*errors) / len(parts) if parts and len(errors) == len(parts) else None
    is_comparable = len(parts) in (0, len(GLUE))  # a mean of fewer columns is not what the paper prints
    mean = _compared(row.mean, "glue", experiment, printed if is_comparable else {}, error, parts)
    return replace(row, columns=columns, mean=mean, printed_parameters=printed.get("params_millions"))


def _examples_error(column: Column) -> float | None:
    """Standard error that its dev examples alone give a column; None where it was not run."""
    if column.mean is None or not column.examples:
        return None
    return standard_error(column.mean, column.examples, column.metric or "")


def _compared(
    column: Column, name: str, experiment: Experiment, printed: PrintedRow, error: float | None, parts: Sequence[Column] = ()
) -> Column:
    """A column, or the mean of several `parts`, compared with the printed number; `error` is that of its dev examples."""
    units = list(independent_values(column).values())
    by_seeds = detectable_by_seeds(float(np.std(units, ddof=1)), len(units)) if len(units) > 1 else None
    by_examples = detectable_by_examples(error, column.examples) if error is not None and column.examples else None
    value, sem = printed.get(name), printed.get(f"{name}_sem")
    column = replace(
        column,
        statistic=experiment.statistic,
        printed=value,
        printed_sem=sem,
        difference=None,
        difference_interval=None,
        bound=None,
        verdict=None,
        detectable=Detectable(by_seeds, by_examples),
    )
    if value is None:
        return column
    paper = Printed(value, sem, experiment.printed_runs, experiment.statistic, experiment.split == "test")
    server = column.test if paper.test else None
    samples = [units] if experiment.statistic == "mean" else [part.values for part in (parts or [column])]
    tested = difference(samples, paper, error or 0.0, server)
    ours = server if server is not None else {"mean": column.mean, "best": column.best, "median": column.median}[paper.statistic]
    return replace(
        column,
        difference=ours - value if ours is not None else None,
        difference_interval=(tested.low, tested.high) if tested else None,
        bound=paper.bound,
        verdict=verdict(len(units), tested, paper.bound),
    )


def _with_baselines(rows: Sequence[Row], experiment: Experiment) -> list[Row]:
    words: dict[str, Sequence[str]] = {name: experiment.rows.get(name, ()) for name in experiment.baseline}
    words |= {row.name: row.words for row in rows if row.name in words}
    by_name = {row.name: row for row in rows}
    pairs = [(row, by_name.get(baseline_of(row, words) or "")) for row in rows]
    means = _against_baseline([(row.mean, base.mean if base else None) for row, base in pairs])
    compared: list[dict[str, Column]] = [{} for _ in rows]
    for name in dict.fromkeys(name for row in rows for name in row.columns):
        places = [place for place, row in enumerate(rows) if name in row.columns]
        chosen = [(pairs[place][0].columns[name], pairs[place][1]) for place in places]
        columns = _against_baseline([(column, base.columns.get(name) if base else None) for column, base in chosen])
        for place, column in zip(places, columns, strict=True):
            compared[place][name] = column
    return [replace(row, columns=columns, mean=mean) for row, columns, mean in zip(rows, compared, means, strict=True)]


def baseline_of(row: Row, baselines: Mapping[str, Sequence[str]]) -> str | None:
    """The name of the baseline that shares most words with this row, the first of them; None for a baseline, and without any.

    All baselines of the experiment are candidates, whether or not their rows were chosen: a small model must not be compared with a
    large one.

    >>> baselines = {"small": ["size=small", "position=absolute"], "base": ["size=base", "position=absolute"]}
    >>> baseline_of(Row("base_fixed", words=["size=base", "position=fixed"]), baselines)
    'base'
    """
    if row.name in baselines:
        return None
    return max(baselines, key=lambda name: len(set(baselines[name]) & set(row.words)), default=None)


def _against_baseline(pairs: Sequence[tuple[Column, Column | None]]) -> list[Column]:
    """One column of every row, each compared with that of its baseline row; p-values are adjusted over the rows."""
    tests = [between(column, base) if base is not None else None for column, base in pairs]
    adjusted = iter(holm([test.p for test in tests if test is not None]))
    return [
        _with_delta(column, base, test, next(adjusted) if test is not None else None)
        for (column, base), test in zip(pairs, tests, strict=True)
    ]


def _with_delta(column: Column, base: Column | None, test: Difference | None, adjusted: float | None) -> Column:
    means = (column.mean, base.mean) if base is not None else (None, None)
    printed = (column.printed, base.printed) if base is not None else (None, None)
    delta = test.value if test is not None else _minus(*means)
    rest = 100 - base.mean if base is not None and base.mean is not None else 0.0
    return replace(
        column,
        delta=delta,
        delta_percent=100 * delta / rest if delta is not None and rest > 0 else None,
        delta_interval=(test.low, test.high) if test is not None else None,
        delta_p=test.p if test is not None else None,
        delta_p_holm=adjusted,
        delta_n=test.n if test is not None else None,
        delta_printed=_minus(*printed),
    )


def _minus(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second


def between(column: Column, base: Column) -> Difference | None:
    """The difference of two columns' means, paired over the seeds that both have; with fewer than two in common, Welch's.

    Fine-tunings of one pre-training are not independent of each other: where there are several pre-trainings, their means count.

    >>> first, second = Column(values=[71.0, 73.0], seeds=[0, 1]), Column(values=[70.0, 71.0], seeds=[0, 1])
    >>> between(first, second).value
    1.5
    """
    ours, theirs = independent_values(column), independent_values(base)
    shared = [seed for seed in ours if seed in theirs]
    if len(shared) >= 2:
        return paired([ours[seed] for seed in shared], [theirs[seed] for seed in shared])
    return independent(list(ours.values()), list(theirs.values()))


def independent_values(column: Column) -> dict[int | str, float]:
    """Seed → value: of fine-tunings where there is one pre-training; of several, pre-training → mean over its fine-tunings.

    >>> independent_values(Column(values=[70.0, 72.0, 80.0], seeds=["0/1", "0/2", "1/1"]))
    {'0': 71.0, '1': 80.0}
    """
    groups = [seed.partition("/")[0] if isinstance(seed, str) else seed for seed in column.seeds]
    return means_by(groups, column.values)
