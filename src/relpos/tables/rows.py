"""A plan → the rows of its table: each is a selection of the values of its finished runs.

Columns about order are measured once the runs are finished, by as many processes as the engine has workers on this machine. That
takes some seconds per network. The figures are kept in the folders of the runs, where `relpos order` finds them, see
`relpos.measures.kept`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from relpos.measures.kinds.lengths import losses
from relpos.measures.measure import Results, measured_columns, measures
from relpos.results.plateau import NONE, Curve, order_found
from relpos.results.scale import Scale, scheme, slowest, travel
from relpos.results.values import GAP, LOSS, Value, by, figure_values, pretraining_values, rates_of, select, tuning_values
from relpos.runs.run import Run, runs_root
from relpos.runs.shelf import LOG, final, last_lines, logged, scores
from relpos.runs.table_file import RowRun
from relpos.runs.trunk import last_constant_step
from relpos.tables.columns import column, mean_column, mean_if_all
from relpos.tables.order_instrument import Each, Instrument, ToMeasure, results_of
from relpos.tables.plan import PlannedRow
from relpos.tables.table import Column, Row, column_values

WHOLE = 0.99
"""Of the rows of a task: some official files have broken rows, which are left out."""


def rows_of(
    plan: Iterable[PlannedRow],
    instrument: Instrument | None = None,
    each: Each = lambda measure, networks: list(map(measure, networks)),
) -> list[Row]:
    """The rows of a table; `comparison` adds the numbers that they are compared with. `each` measures the networks that are not
    measured yet, by default one after another in this process.
    """
    plan = list(plan)
    values = {planned.name: list(values_of(planned)) for planned in plan}
    rows = [_row(planned, values[planned.name]) for planned in plan]
    if instrument is None:
        return rows
    results = results_of([run for planned in plan for run in planned.pretrainings], instrument, each)
    measured = [_with_order(row, planned, instrument, results) for row, planned in zip(rows, plan, strict=True)]
    return with_plateau(measured, values, {planned.name: constant_phase(planned.pretrainings) for planned in plan})


def values_of(planned: PlannedRow) -> Iterator[Value]:
    """The numbers of a row's finished runs."""
    for run in planned.pretrainings:
        if (record := run.record).get("state") == "finished":
            yield from pretraining_values(run.path, record)
    for tuning in planned.tunings:
        if (record := tuning.run.record).get("state") == "finished":
            # Its pre-training is the plan's, wherever the folders lie.
            yield from (
                replace(value, pretrain_seed=tuning.pretrain_seed) for value in tuning_values(tuning.run.path, [record], None)
            )


def _row(planned: PlannedRow, values: Sequence[Value]) -> Row:
    several, runs = len(planned.pretrainings) > 1, list(_runs(planned))
    columns: dict[str, Column] = {}
    parts: dict[str, tuple[int, int]] = {}
    for task, node in {tuning.task: tuning.run.config["task"] for tuning in planned.tunings}.items():
        states = [run.state for run in runs if run.task == task]
        # Files of GLUE alone: what is generated, or the user's own, is a part of nothing.
        published = [tuning.run for tuning in planned.tunings if tuning.task == task and "glue" in tuning.run.meaning]
        read = [int(final(run.record).get("training_rows", 0)) for run in published]
        if read and 0 < max(read) < WHOLE * node["rows"]:
            parts[task] = max(read), node["rows"]
        # MNLI has two dev sets: one task may fill two columns.
        for name in node["columns"]:
            found = select(values, stage="finetune", column=name)
            columns[name] = column(found, states, several, node["metric"].rpartition(".")[2])
    of_pretrainings = by(select(values, stage="pretrain"), "column")
    first = {name: found[0].value for name, found in of_pretrainings.items()}
    config = planned.pretrainings[0].config if planned.pretrainings else {}
    rates = rates_of(config.get("recipe") or {})
    moves = first.get("position_parameters") or (first and config.get("conv"))
    return Row(
        name=planned.name,
        overrides=planned.overrides,
        parameters=int(first["parameters"]) if first else None,
        position_parameters=int(first["position_parameters"]) if first else None,
        travel=travel(config.get("recipe"), config.get("steps", 0), slowest(*rates)) if moves else None,
        perplexity=float(np.mean([each.value for each in of_pretrainings["perplexity"]])) if first else None,
        position_lr=rates[0],
        conv_lr=rates[1],
        columns=columns,
        mean=mean_column(columns, several),
        heldout_loss=_mean_curve(planned.pretrainings),
        parts=parts,
        runs=runs,
    )


def _runs(row: PlannedRow) -> Iterator[RowRun]:
    """The pre-trainings of a row, then its fine-tunings, as their records are now."""
    for run in row.pretrainings:
        yield _row_run(run, None, run.config.get("seed"), run.config.get("seed"))
    for tuning in row.tunings:
        yield _row_run(tuning.run, tuning.task, tuning.pretrain_seed, tuning.seed)


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
        columns=scores(record),
        error=error,
        log=last_lines(run.path / LOG) if error else [],
    )


def _with_order(row: Row, planned: PlannedRow, instrument: Instrument, results: Sequence[tuple[ToMeasure, Results]]) -> Row:
    """The row with the columns about order in front, and with those of its snapshots."""
    states, folders = [run.state for run in planned.pretrainings], {run.path for run in planned.pretrainings}
    at_end: list[Value] = []
    course: dict[int, list[Value]] = {}
    for asked, found in results:
        # By folder: rows may share a pre-training, which is measured once.
        if asked.run.path in folders:
            values = at_end if asked.instrument is instrument else course.setdefault(asked.percent, [])
            values += measured_values(asked, found)
    names = instrument.columns(snapshots=True)
    snapshots = {percent: order_columns(names, course[percent], states) for percent in sorted(course)}
    return replace(row, columns=order_columns(instrument.columns(), at_end, states) | row.columns, snapshots=snapshots)


def measured_values(asked: ToMeasure, results: Results) -> Iterator[Value]:
    """The numbers of one network's figures."""
    known = Value(asked.run.path, "pretrain", "", 0.0, pretrain_seed=asked.run.config["seed"], percent=asked.percent)
    return figure_values(known, measures(), results)


def order_columns(names: Iterable[str], values: Sequence[Value], states: Sequence[str]) -> dict[str, Column]:
    """The columns of these names: mean, standard error and interval over pre-trainings, whose states these are."""
    known = measured_columns()
    return {name: column(select(values, column=name), states, len(states) > 1, known[name][1].metric) for name in names}


def with_plateau(
    rows: Sequence[Row], values: Mapping[str, Sequence[Value]], curves: Mapping[str, Mapping[int, Curve]]
) -> list[Row]:
    """The rows, each told when it found order, how much of it it knows, and whether it is on the bag-of-words plateau of its scale,
    if its shuffle gap is among the columns.

    Args:
        rows: whose columns about order were measured.
        values: row → numbers of its finished runs.
        curves: row → seed → what its training went through, see `constant_phase`.
    """
    without = scheme([f"position={NONE}"])
    scales: dict[str, Scale] = {}
    places: dict[str, tuple[str, str]] = {}  # row → its scale, and its name there
    in_scale: dict[str, dict[str, Mapping[int, Curve]]] = {}
    for row in rows:
        if found := select(values[row.name], column=LOSS):
            key, name = places[row.name] = found[0].scale, NONE if found[0].scheme == without else row.name
            # Whether `none` itself knows order, as it does under causal attention, decides for the other rows of the scale.
            gaps = column_values(GAP, row.columns[GAP]) if GAP in row.columns else []
            scales.setdefault(key, Scale({}, "", "")).add({name: [*found, *gaps]})
            in_scale.setdefault(key, {})[name] = curves.get(row.name, {})
    orders = {key: order_found(each) for key, each in in_scale.items()}

    def told(row: Row) -> Row:
        # Not even `none` is known where no gap was measured: losses of answers, for instance, have no such plateau.
        if row.name not in places or GAP not in row.columns:
            return row
        key, name = places[row.name]
        scale = scales[key]
        known, is_on_it = scale.order_known(name), scale.is_on_plateau(name)
        return replace(row, order_found=orders[key].get(name), order_known=known, on_plateau=is_on_it)

    return [told(row) for row in rows]


def with_heldout_lengths(rows: Sequence[Row], plan: Iterable[PlannedRow], lengths: list[int]) -> list[Row]:
    """The rows, each with the mean loss over its finished pre-trainings at each length, see `relpos.measures.kinds.lengths`.

    The loss is None if the scheme does not serve the length, or if no pre-training is finished.
    """
    measured = [[losses(run.path, lengths) for run in each.pretrainings if lengths and run.state == "finished"] for each in plan]
    means = [{str(length): mean_if_all([by_length.get(length) for by_length in row]) for length in lengths} for row in measured]
    return [replace(row, heldout_by_length=by_length) for row, by_length in zip(rows, means, strict=True)]


def _mean_curve(runs: Sequence[Run]) -> list[tuple[int, float]]:
    """(step, held-out loss): the mean over pre-training seeds, at the steps that all of them have reached."""
    # A run that has logged nothing yet would leave no step that all have reached.
    curves = [curve for run in runs if (curve := _curve(run))]
    steps = sorted(set.intersection(*map(set, curves))) if curves else []
    return [(step, sum(curve[step] for curve in curves) / len(curves)) for step in steps]


def _curve(run: Run) -> dict[int, float]:
    return {line["step"]: line[LOSS] for line in logged(run.path) if LOSS in line}


def constant_phase(runs: Sequence[Run]) -> dict[int, Curve]:
    """Pre-training seed → tokens, padding included → held-out loss, of finished runs: until the rate falls, or where it falls from
    the beginning, until the end."""
    curves: dict[int, Curve] = {}
    for run in runs:
        # A first phase of shorter texts has other tokens a step.
        if run.stage == "pretrain" and run.state == "finished" and "first" not in run.meaning:
            end, tokens = last_constant_step(run) or run.config["steps"], run.config["batch"] * run.config["length"]
            curves[run.config["seed"]] = {step * tokens: loss for step, loss in _curve(run).items() if step <= end}
    return curves
