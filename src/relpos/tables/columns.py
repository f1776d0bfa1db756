"""The records of a row's runs → its numbers. What is missing is None, never zero; a mean comes with its spread and its count."""

from __future__ import annotations

import csv
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from relpos.errors import RelposError
from relpos.files import read_text
from relpos.measures.lengths import losses
from relpos.results.scale import slowest, travel
from relpos.results.statistics import interval
from relpos.results.values import GLUE, means_by, rates_of
from relpos.runs.log import LOG, last_lines
from relpos.runs.run import Run, runs_root
from relpos.runs.shelf import logged
from relpos.runs.table_file import RowRun
from relpos.tables import intervals
from relpos.tables.experiment import Experiment
from relpos.tables.plan import PlannedRow, Tuning
from relpos.tables.row import Column, Row


def rows_of(plan: Iterable[PlannedRow]) -> list[Row]:
    """The rows of a table, from the records of the planned runs; `comparison` adds the numbers that they are compared with."""
    return [_row(planned) for planned in plan]


def _row(planned: PlannedRow) -> Row:
    metrics = [run.metrics for run in planned.pretrainings if run.state == "finished"]
    by_pretraining = len(planned.pretrainings) > 1
    columns: dict[str, Column] = {}
    for task in dict.fromkeys(tuning.task for tuning in planned.tunings):
        tunings = [tuning for tuning in planned.tunings if tuning.task == task]
        for name in tunings[0].run.config["task"]["columns"]:
            # MNLI has two dev sets: one task may fill two columns.
            columns[name] = _column(name, tunings, by_pretraining)
    position_lr, conv_lr = rates_of(planned.pretrainings[0].config.get("recipe") or {}) if planned.pretrainings else (1.0, None)
    return Row(
        name=planned.name,
        overrides=planned.overrides,
        parameters=metrics[0]["parameters"] if metrics else None,
        position_parameters=metrics[0]["position_parameters"] if metrics else None,
        travel=_travel(planned.pretrainings[0], metrics[0]) if metrics else None,
        perplexity=float(np.mean([run_metrics["perplexity"] for run_metrics in metrics])) if metrics else None,
        position_lr=position_lr,
        conv_lr=conv_lr,
        columns=columns,
        mean=_mean(columns),
        heldout_loss=_mean_curve(planned.pretrainings),
        runs=_runs(planned),
    )


def _runs(row: PlannedRow) -> list[RowRun]:
    """The pre-trainings of a row, then its fine-tunings, as their records are now."""
    pretrainings = [_row_run(run, None, run.config.get("seed"), run.config.get("seed")) for run in row.pretrainings]
    return pretrainings + [_row_run(tuning.run, tuning.task, tuning.pretrain_seed, tuning.seed) for tuning in row.tunings]


def _row_run(run: Run, task: str | None, pretrain_seed: int | None, seed: int | None) -> RowRun:
    root, record = runs_root(), run.record
    error = record.get("error")
    return RowRun(
        stage=run.stage,
        identity=run.identity,
        state="finished" if run.stage == "given" else record.get("state", "missing"),
        path=(run.path.relative_to(root) if run.path.is_relative_to(root) else run.path).as_posix(),
        task=task,
        pretrain_seed=pretrain_seed,
        seed=seed,
        columns=record.get("metrics", {}).get("columns", {}),
        error=error,
        log=last_lines(run.path / LOG) if error else [],
    )


def _travel(run: Run, metrics: Mapping[str, Any]) -> float | None:
    """The sum of the learning rates of position parameters: about as far as Adam can move them."""
    recipe = run.config.get("recipe") or {}
    has_positions = metrics["position_parameters"] or run.config.get("conv")
    return travel(recipe, run.config["steps"], slowest(*rates_of(recipe))) if has_positions else None


def _column(name: str, tunings: list[Tuning], by_pretraining: bool) -> Column:
    """One column of a row; `by_pretraining` where the row has several pre-trainings."""
    states = [tuning.run.state for tuning in tunings]
    finished = [tuning for tuning, state in zip(tunings, states, strict=True) if state == "finished"]
    metrics = [tuning.run.metrics for tuning in finished]
    # Of the first run: all runs of a column have the same task, and so the same dev set.
    of_dev_set = metrics[0] if metrics else {}
    majority = of_dev_set.get("majority", {}).get(name)
    values = [run_metrics["columns"][name] for run_metrics in metrics]
    column = summary(values, [tuning.pretrain_seed for tuning in finished] if by_pretraining else None)
    return replace(
        column,
        seeds=[f"{tuning.pretrain_seed}/{tuning.seed}" if by_pretraining else tuning.seed for tuning in finished],
        interval=(intervals.interval(finished, name) if by_pretraining else None) or column.interval,
        n_failed=states.count("failed"),
        n_missing=len(states) - len(finished) - states.count("failed"),
        # Not `==`: × 100 and a mean of two metrics leave a rounding error.
        n_collapsed=sum(value <= majority + 1e-9 for value in values) if majority is not None else 0,
        majority=majority,
        examples=of_dev_set.get("examples", {}).get(name),
        metric=tunings[0].run.config["task"]["metric"].rpartition(".")[2],
    )


def summary(values: Sequence[float], pretrainings: Sequence[Hashable] | None = None) -> Column:
    """Mean, its standard error s/√n and bootstrap interval (none for a single value), best and median of some scores.

    Args:
        values: of fine-tunings.
        pretrainings: for each value, the pre-training that it started from, if there are several. Fine-tunings of one pre-training
            are not independent of each other: error and interval are then those of the pre-trainings' means.

    >>> column = summary([70.0, 71.0, 75.0])
    >>> column.mean, column.best, column.median
    (72.0, 75.0, 71.0)
    >>> summary([70.0, 71.0], pretrainings=[0, 0]).sem is None  # one pre-training has no spread
    True
    """
    units = list(means_by(pretrainings, values).values()) if pretrainings is not None else list(values)
    if not values:
        return Column()
    return Column(
        values=list(values),
        mean=float(np.mean(values)),
        sem=float(np.std(units, ddof=1) / np.sqrt(len(units))) if len(units) > 1 else None,
        best=max(values),
        median=float(np.median(values)),
        interval=interval(units),
    )


def mean_if_all(values: Sequence[float | None]) -> float | None:
    """The mean; None if a value is missing, or if there are no values.

    >>> mean_if_all([1.0, 2.0]), mean_if_all([1.0, None])
    (1.5, None)
    """
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def mean_of(columns: Iterable[str]) -> list[str]:
    """The columns whose mean is taken: GLUE's nine, or those of them that the table has.

    >>> mean_of(["wnli", "rte", "cola"])
    ['cola', 'rte']
    """
    return [column for column in GLUE if column in set(columns)]


def _mean(columns: Mapping[str, Column]) -> Column:
    """The mean of GLUE's columns, seed by seed; a seed that lacks a column counts as missing.

    `best` is the mean of the columns' bests, because a submission is made of the best run of each task; `median` likewise.
    """
    names = mean_of(columns)
    if not names:
        return Column()
    parts = [columns[name] for name in names]
    by_seed = [dict(zip(part.seeds, part.values, strict=True)) for part in parts]
    # A mean over fewer columns would be high or low by which of them are missing.
    seeds = [seed for seed in parts[0].seeds if all(seed in values for values in by_seed)]
    groups = [seed.partition("/")[0] for seed in seeds if isinstance(seed, str)]
    mean = summary([float(np.mean([values[seed] for values in by_seed])) for seed in seeds], groups or None)
    bests = [part.best for part in parts if part.best is not None]
    medians = [part.median for part in parts if part.median is not None]
    # Of the column with most runs: one that was cut short must not hide that seeds are missing.
    planned = max(len(part.values) + part.n_failed + part.n_missing for part in parts)
    return replace(
        mean,
        seeds=seeds,
        of=names,
        best=float(np.mean(bests)) if len(bests) == len(parts) else None,
        median=float(np.mean(medians)) if len(medians) == len(parts) else None,
        n_missing=planned - len(mean.values),
    )


def with_heldout_lengths(rows: Sequence[Row], plan: Iterable[PlannedRow], lengths: list[int]) -> list[Row]:
    """The rows, each with the mean loss over its finished pre-trainings at each length, see `relpos.measures.lengths`.

    The loss is None if the scheme does not serve the length, or if no pre-training is finished.
    """
    return [replace(row, heldout_by_length=_mean_losses(planned, lengths)) for row, planned in zip(rows, plan, strict=True)]


def _mean_losses(planned: PlannedRow, lengths: list[int]) -> dict[str, float | None]:
    finished = [run for run in planned.pretrainings if run.state == "finished"] if lengths else []
    measured = [losses(run.path, run.inputs["store"].path, lengths, run.config["precision"]) for run in finished]
    return {str(length): mean_if_all([by_length.get(length) for by_length in measured]) for length in lengths}


def printed_numbers(experiment: Experiment) -> dict[str, dict[str, float]]:
    """Row → column → the paper's number, from the CSV that an experiment names; its heads are `COLUMN` or `COLUMN_mean`.

    Raises:
        RelposError: there is no such file, it lies elsewhere, or it is no CSV with a column `row`.
    """
    if experiment.printed is None:
        return {}
    path = experiment.folder / experiment.printed
    if not path.resolve().is_relative_to(experiment.folder.resolve()):  # a file that travels may not show others to its reader
        raise RelposError(f"table {experiment.name}: printed: {path} lies outside the folder of the experiment file")
    if not path.is_file():
        raise RelposError(f"table {experiment.name}: printed: there is no file {path}")
    try:
        return {line["row"]: _numbers(line) for line in csv.DictReader(read_text(path).splitlines(keepends=True))}
    except (KeyError, ValueError, AttributeError, TypeError, csv.Error) as error:  # lines of other lengths than the head
        raise RelposError(f"table {experiment.name}: printed: {path} is no CSV with a column 'row' and numbers") from error


def _numbers(line: dict[str, str]) -> dict[str, float]:
    result = {}
    for key, text in line.items():
        # Columns of names and remarks, and empty fields, are no numbers.
        with suppress(ValueError):
            result[key.removesuffix("_mean")] = float(text)
    return result


def _mean_curve(runs: Sequence[Run]) -> list[tuple[int, float]]:
    """(step, held-out loss): the mean over pre-training seeds, at the steps that all of them have reached."""
    # A run that has logged nothing yet would leave no step that all have reached.
    curves = [curve for run in runs if (curve := _curve(run))]
    steps = sorted(set.intersection(*map(set, curves))) if curves else []
    return [(step, sum(curve[step] for curve in curves) / len(curves)) for step in steps]


def _curve(run: Run) -> dict[int, float]:
    """Step → held-out loss, as the run logged them."""
    return {line["step"]: line["heldout_loss"] for line in logged(run.path) if "heldout_loss" in line}
