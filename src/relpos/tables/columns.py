"""Rows of runs → rows of numbers. What is missing is None, never zero; a mean stands with its spread and count."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from relpos.errors import RelposError
from relpos.runs.run import Run
from relpos.tables import intervals, row_runs
from relpos.tables.experiment import Experiment
from relpos.tables.plan import PlannedRow, Tuning
from relpos.tables.statistics import interval

GLUE = ("cola", "mnli_m", "mnli_mm", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb")
"""The nine columns whose mean is GLUE; WNLI stands beside."""


def table_of(rows: Iterable[PlannedRow], printed: dict[str, dict[str, float]] | None = None) -> list[dict[str, Any]]:
    """The table: one dictionary of plain values a row.

    Args:
        rows: the plan; the numbers come from the records of its runs.
        printed: the paper's numbers, row → column → number.

    Returns:
        rows with `name`, `words`, `parameters`, `position_parameters`, `perplexity`, `columns`, `mean`,
        `heldout_loss` (by step, the mean of its pre-trainings) and `runs` (see `row_runs.entries`). A column has `values` and
        `seeds` (of the runs that are there), their `mean`, `sem`, `best`, `median` and `interval` (95 % bootstrap interval of the
        mean over seeds, [low, high];
        of several pre-trainings over these, and over dev examples where the runs kept their answers; None for a single run),
        `n_failed`, `n_missing`, `n_collapsed` (runs no better than the majority class), and of its dev set `majority` (the score
        of the majority class), `examples` and `metric`. `printed` is the paper's number.
        What else stands beside it (statistic, difference, verdict, …) is added by `relpos.tables.comparison`.
    """
    return [_row(row, (printed or {}).get(row.name, {})) for row in rows]


def _row(row: PlannedRow, printed: dict[str, float]) -> dict[str, Any]:
    metrics = [run.metrics for run in row.pretrainings if run.state == "finished"]
    several = len(row.pretrainings) > 1
    columns: dict[str, Any] = {}
    for task in dict.fromkeys(tuning.task for tuning in row.tunings):
        own = [tuning for tuning in row.tunings if tuning.task == task]
        for column in own[0].run.config["task"]["columns"]:
            columns[column] = _column(column, own, several) | {"printed": printed.get(column)}
    perplexities = [found["perplexity"] for found in metrics]
    return {
        "name": row.name,
        "words": row.words,
        "parameters": metrics[0]["parameters"] if metrics else None,
        "position_parameters": metrics[0]["position_parameters"] if metrics else None,
        "perplexity": float(np.mean(perplexities)) if metrics and len(metrics) == len(row.pretrainings) else None,
        "columns": columns,
        "mean": _mean(columns) | {"printed": printed.get("glue")},
        "heldout_loss": _mean_curve(row.pretrainings),
        "runs": row_runs.entries(row),
    }


def _column(column: str, tunings: list[Tuning], several: bool) -> dict[str, Any]:
    states = [tuning.run.state for tuning in tunings]
    there = [tuning for tuning, state in zip(tunings, states, strict=True) if state == "finished"]
    metrics = [tuning.run.metrics for tuning in there]
    first = metrics[0] if metrics else {}
    values = [found["columns"][column] for found in metrics]
    majority = first.get("majority", {}).get(column)
    groups = [tuning.pretrain_seed for tuning in there]
    found = statistics(values, groups if several else None) | {
        "seeds": [f"{tuning.pretrain_seed}/{tuning.seed}" if several else tuning.seed for tuning in there],
        "n_failed": states.count("failed"),
        "n_missing": len(states) - len(there) - states.count("failed"),
        "n_collapsed": sum(value <= majority + 1e-9 for value in values) if majority is not None else 0,
        "majority": majority,
        "examples": first.get("examples", {}).get(column),
        "metric": tunings[0].run.config["task"]["metric"].rpartition(".")[2],
    }
    return found | ({"interval": intervals.interval(there, column) or found["interval"]} if several else {})


def statistics(values: list[float], pretrainings: Sequence[Any] | None = None) -> dict[str, Any]:
    """Mean, its standard error s/√n and bootstrap interval (none for a single value), best and median of some values.

    Args:
        values: of fine-tunings.
        pretrainings: of each value, the pre-training that it started from, where there are several: fine-tunings of one are not
            independent of each other, so that error and interval are those of the pre-trainings' means.
    """
    units = list(means_by(pretrainings, values).values()) if pretrainings is not None else values
    array = np.array(values, dtype=np.float64)
    count = len(array)
    return {
        "values": values,
        "mean": float(array.mean()) if count else None,
        "sem": float(np.std(units, ddof=1) / np.sqrt(len(units))) if len(units) > 1 else None,
        "best": float(array.max()) if count else None,
        "median": float(np.median(array)) if count else None,
        "interval": interval(units),
    }


def means_by(groups: Sequence[Any], values: Sequence[float]) -> dict[Any, float]:
    """Group → mean of its values."""
    found: dict[Any, list[float]] = {}
    for group, value in zip(groups, values, strict=True):
        found.setdefault(group, []).append(value)
    return {group: sum(some) / len(some) for group, some in found.items()}


def mean_of(columns: Iterable[str]) -> list[str]:
    """The columns whose mean is taken: GLUE's nine, or those of them that the table has."""
    return [column for column in GLUE if column in set(columns)]


def _mean(columns: dict[str, Any]) -> dict[str, Any]:
    """The mean of GLUE's columns, seed by seed; only seeds of which every column is there, the others count as missing.

    `best` and `median` are the means of the columns' own: a submission is made of the best run of each task.
    """
    names = mean_of(columns)
    by_seed = [dict(zip(columns[name]["seeds"], columns[name]["values"], strict=True)) for name in names]
    seeds = [seed for seed in by_seed[0] if all(seed in other for other in by_seed)] if names else []
    values = [float(np.mean([column[seed] for column in by_seed])) for seed in seeds]
    groups = [seed.partition("/")[0] for seed in seeds] if seeds and "/" in str(seeds[0]) else None
    found = statistics(values, groups) | {"seeds": seeds, "of": names}
    for key in ("best", "median"):
        every = [columns[name][key] for name in names]
        found[key] = None if None in every or not every else float(np.mean(every))
    planned = [len(columns[name]["values"]) + columns[name]["n_failed"] + columns[name]["n_missing"] for name in names]
    return found | {"n_missing": max(planned, default=0) - len(values)}


def printed_numbers(experiment: Experiment) -> dict[str, dict[str, float]]:
    """The paper's numbers, row → column → number, from the CSV that an experiment names; `COLUMN` or `COLUMN_mean`.

    Raises:
        RelposError: there is no such file.
    """
    if experiment.printed is None:
        return {}
    path = experiment.folder / experiment.printed
    if not path.is_file():
        raise RelposError(f"table {experiment.name}: printed: there is no file {path}")
    with path.open(encoding="utf-8", newline="") as file:
        lines = [dict(line) for line in csv.DictReader(file)]
    return {line["row"]: _numbers(line) for line in lines}


def _numbers(line: dict[str, str]) -> dict[str, float]:
    result = {}
    for key, text in line.items():
        with suppress(ValueError):
            result[key.removesuffix("_mean")] = float(text)
    return result


def _mean_curve(runs: Sequence[Run]) -> list[list[float]]:
    """[step, held-out loss]: the mean over pre-training seeds, at the steps that all of them have reached."""
    curves = [curve for run in runs if (curve := _curve(run))]
    steps = sorted(set.intersection(*map(set, curves))) if curves else []
    return [[step, sum(curve[step] for curve in curves) / len(curves)] for step in steps]


def _curve(run: Run) -> dict[float, float]:
    """Step → held-out loss, as the run logged them."""
    try:
        text = (run.path / "metrics.jsonl").read_text(encoding="utf-8")
    except OSError:
        return {}
    lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("}\n")]
    return {line["step"]: line["heldout_loss"] for line in lines if "heldout_loss" in line}
