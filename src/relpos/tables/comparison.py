"""What stands beside our numbers: the paper's, the verdict, the row they are held against, and how small a difference would show.

Added to every column of `table_of` (and to `mean`):

    statistic            mean, best or median: which of ours the printed number is held against
    printed              the paper's number or None; `printed_sem` its standard error
    difference           ours − printed, ours being the statistic (or the server's `test`, for a number printed on the test set)
    difference_interval  95 % interval of it, [low, high], for a best less what the number of runs makes of it (see `verdict`); None
                         for a single run
    bound, verdict       see `relpos.tables.verdict`; None where nothing is printed
    detectable           {"seeds": …, "examples": …}: the smallest difference between two rows that so many seeds, and so many dev
                         examples, show with probability 0.8; None where unknown
    delta                mean − that of the baseline row; `delta_percent` 100·delta/(100 − baseline's), the relative error reduction
    delta_interval       95 % interval of delta, paired by seed where the seeds are shared; `delta_p`, `delta_p_holm` two-sided, the
                         second one adjusted for the rows of the column; `delta_n` pairs; None for the baseline itself
    delta_printed        the same difference between the printed numbers

A row also has `printed_parameters`, in millions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relpos.tables.checks import standard_error as error_of_examples
from relpos.tables.columns import mean_of, means_by, statistics
from relpos.tables.experiment import Experiment
from relpos.tables.statistics import Difference, detectable_by_examples, detectable_by_seeds, holm, independent, paired
from relpos.tables.verdict import Printed, difference, verdict

Column = dict[str, Any]
PrintedRow = Mapping[str, float]


def with_comparisons(rows: list[dict[str, Any]], experiment: Experiment, printed: Mapping[str, PrintedRow]) -> list[dict[str, Any]]:
    """The rows of a table, each column with what stands beside it.

    Args:
        rows: of `table_of`, with the server's scores where there are any.
        experiment: says the statistic, the printed split and the baseline row.
        printed: row → column → number, `COLUMN_sem` its standard error.
    """
    rows = [_with_printed(row, experiment, printed.get(row["name"], {})) for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row["columns"]))
    words = {name: list(experiment.rows.get(name, ())) for name in experiment.baseline}
    words |= {row["name"]: row["words"] for row in rows if row["name"] in words}
    pairs = [(row, next((other for other in rows if other["name"] == baseline_of(row, words)), None)) for row in rows]
    for column in (*names, None):
        _hold_against_baseline([(_column(row, column), _column(base, column) if base else None) for row, base in pairs])
    return rows


def _column(row: dict[str, Any], name: str | None) -> Column | None:
    found: Column | None = row["mean"] if name is None else row["columns"].get(name)
    return found


def _with_printed(row: dict[str, Any], experiment: Experiment, printed: PrintedRow) -> dict[str, Any]:
    empty = statistics([]) | {"seeds": [], "n_failed": 0, "n_missing": 0, "n_collapsed": 0, "majority": None, "examples": None}
    absent = {name: empty | {"printed": printed[name], "metric": None} for name in mean_of(printed) if name not in row["columns"]}
    planned = row["columns"] | (absent if experiment.needs else {})
    columns = {name: _one(column, name, experiment, printed, _error(column)) for name, column in planned.items()}
    of = [columns[name] for name in row["mean"].get("of", ())]
    known = [error for column in of if (error := _error(column)) is not None]
    error = sum(one**2 for one in known) ** 0.5 / len(of) if of and len(known) == len(of) else None
    mean = _one(row["mean"], "glue", experiment, printed if len(of) == 9 or not of else {}, error, of)
    return row | {
        "columns": columns,
        "mean": mean,
        "printed_parameters": printed.get("params_millions"),
    }


def _error(column: Column) -> float | None:
    """Standard error that its dev examples alone give a column; None where it was not run."""
    if column["mean"] is None or not column.get("examples"):
        return None
    return error_of_examples(column, column["mean"])


def _one(
    column: Column, name: str, experiment: Experiment, printed: PrintedRow, error: float | None, of: Sequence[Column] = ()
) -> Column:
    """A cell, or the mean `of` several, with what stands beside it; `error` is what its dev examples alone give it."""
    value, sem = printed.get(name), printed.get(f"{name}_sem")
    units = list(independent_values(column).values())
    words: Column = {"statistic": experiment.statistic, "printed": value, "printed_sem": sem}
    words["detectable"] = {
        "seeds": detectable_by_seeds(float(np.std(units, ddof=1)), len(units)) if len(units) > 1 else None,
        "examples": detectable_by_examples(error, column["examples"] or 1)
        if error is not None and column.get("examples")
        else None,
    }
    if value is None:
        return column | words | {"difference": None, "difference_interval": None, "bound": None, "verdict": None}
    paper = Printed(value, sem, experiment.printed_runs, experiment.statistic, experiment.split == "test")
    server = column.get("test") if paper.test else None
    samples = [units] if experiment.statistic == "mean" else [one["values"] for one in (of or [column])]
    found = difference(samples, paper, error or 0.0, server)
    ours = server if server is not None else column[experiment.statistic]
    words |= {"difference": ours - value if ours is not None else None, "bound": paper.bound}
    words |= {"difference_interval": [found.low, found.high] if found else None, "verdict": verdict(len(units), found, paper.bound)}
    return column | words


def baseline_of(row: dict[str, Any], baselines: Mapping[str, Sequence[str]]) -> str | None:
    """The name of the baseline that shares most words with this row, the first of them; None for a baseline, and without any.

    All baselines of the experiment are asked, whether or not their rows were chosen: a small model is not held against a large one.
    """
    if row["name"] in baselines:
        return None
    return max(baselines, key=lambda name: len(set(baselines[name]) & set(row["words"])), default=None)


def _hold_against_baseline(pairs: list[tuple[Column | None, Column | None]]) -> None:
    """Fills in `delta` and its company, in place; p-values are adjusted over the rows."""
    tests: list[tuple[Column, Difference]] = []
    for column, base in pairs:
        if column is None:
            continue
        column |= dict.fromkeys(("delta", "delta_percent", "delta_interval", "delta_p", "delta_p_holm", "delta_n", "delta_printed"))
        if base is None:
            continue
        if column["printed"] is not None and base["printed"] is not None:
            column["delta_printed"] = column["printed"] - base["printed"]
        if column["mean"] is None or base["mean"] is None:
            continue
        found = between(column, base)
        column["delta"] = found.value if found else column["mean"] - base["mean"]
        column["delta_percent"] = 100 * column["delta"] / (100 - base["mean"]) if base["mean"] < 100 else None
        if found is not None:
            tests.append((column, found))
    for (column, found), adjusted in zip(tests, holm([found.p for _, found in tests]), strict=True):
        column |= {"delta_interval": [found.low, found.high], "delta_p": found.p, "delta_p_holm": adjusted, "delta_n": found.n}


def between(column: Column, base: Column) -> Difference | None:
    """The difference of two cells' means, paired over the seeds that both have; with none in common, Welch's.

    Fine-tunings of one pre-training are not independent of each other: where there are several pre-trainings, their means count.
    """
    own, other = (independent_values(one) for one in (column, base))
    shared = [seed for seed in own if seed in other]
    if len(shared) >= 2:
        return paired([own[seed] for seed in shared], [other[seed] for seed in shared])
    return independent(list(own.values()), list(other.values()))


def independent_values(column: Column) -> dict[Any, float]:
    """Seed → value: of fine-tunings where there is one pre-training; else (`1/42`) of pre-trainings, means over fine-tunings."""
    groups = [seed.partition("/")[0] if isinstance(seed, str) else seed for seed in column["seeds"]]
    return means_by(groups, column["values"])
