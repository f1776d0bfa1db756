"""A plan → the rows of its table: each is a selection of the values of its finished runs, each column their mean with spread and
count. What is missing is None, never zero.

Columns about order are measured once the runs are finished, by as many processes as the engine has workers on this machine. That
takes some seconds per network. The figures are kept in the folders of the runs, where `relpos order` finds them, see
`relpos.measures.kept`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relpos.analysis.resampling import crossed_interval, mean_interval, multi_bootstrap
from relpos.errors import RelposError, say
from relpos.measures.kinds.lengths import losses
from relpos.measures.measure import NATS, Figure, Results, measured_columns, measures
from relpos.process import without_keys
from relpos.results.plateau import NONE, Curve, order_found, order_known
from relpos.results.scale import MEAN, Scale, columns_named, has_parameters, mean_of, scheme, seeds, travel
from relpos.results.statistics import Difference, Interval
from relpos.results.values import (
    GAP,
    LOSS,
    Value,
    answers,
    by,
    figure_values,
    per_group,
    pretraining_values,
    rates_of,
    select,
    tuning_values,
)
from relpos.runs.run import Run, runs_root
from relpos.runs.shelf import final, logged, scores
from relpos.runs.table_file import RowRun
from relpos.tables.order_instrument import Each, Instrument, ToMeasure, results_of
from relpos.tables.plan import PlannedRow
from relpos.tables.table import PLAIN, Column, Row, column_values, mean_if_all
from relpos.train.optim import Recipe
from relpos.trust import find

WHOLE = 0.99
"""Of the rows of a task: some official files have broken rows, which are left out."""
FEWEST = 5
"""The fewest pre-trainings whose measured figures are bootstrapped. Over fewer a bootstrap is too narrow: they get a t-interval."""
RESAMPLES = 500


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
            for value in tuning_values(tuning.run.path, [record], None):
                yield replace(value, pretrain_seed=tuning.pretrain_seed)


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
    plain: dict[str, Any] = {
        number.name: number.kind(np.mean([value.value for value in of_pretrainings[number.name]]))
        for number in PLAIN
        if number.name in of_pretrainings
    }
    config = planned.pretrainings[0].config if planned.pretrainings else {}
    rates, moved = rates_of(config.get("recipe") or {}), has_parameters(values, config.get("conv"))
    return Row(
        name=planned.name,
        overrides=without_keys(planned.overrides),
        position_parameters=int(of_pretrainings["position_parameters"][0].value) if plain else None,
        travel=travel(config.get("recipe"), config.get("steps", 0), rates, *moved) if plain else None,
        position_lr=rates[0],
        conv_lr=rates[1],
        columns=columns,
        mean=mean_column(columns, several),
        heldout_loss=_mean_curve(planned.pretrainings),
        parts=parts,
        runs=runs,
        **plain,
    )


def _runs(row: PlannedRow) -> Iterator[RowRun]:
    """The pre-trainings of a row, then its fine-tunings, as their records are now."""
    root = runs_root()
    trained = [(run, None, run.config.get("seed"), run.config.get("seed")) for run in row.pretrainings]
    tuned = [(each.run, each.task, each.pretrain_seed, each.seed) for each in row.tunings]
    for run, task, pretrain_seed, seed in [*trained, *tuned]:
        record = run.record
        yield RowRun(
            stage=run.stage,
            identity=run.identity,
            state="finished" if run.stage == "given" else record.get("state", "missing"),
            path=(run.path.relative_to(root) if run.path.is_relative_to(root) else run.path).as_posix(),
            task=task,
            pretrain_seed=pretrain_seed,
            seed=seed,
            columns=scores(record),
            error=record.get("error"),
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
    groups: dict[str, list[tuple[str, Row]]] = {}  # scale → its rows, with their names there
    for row in rows:
        if losses := select(values[row.name], column=LOSS):
            # By its scheme: a table of convolutions may call a row `none` that has positions.
            name = NONE if losses[0].scheme == without else f"row {row.name}"
            groups.setdefault(losses[0].scale, []).append((name, row))
    told: dict[str, Row] = {}
    for group in groups.values():
        scale = Scale({}, "", "")
        for name, row in group:
            # Whether `none` itself knows order, as it does under causal attention, decides for the other rows of the scale.
            gaps = column_values(GAP, row.columns[GAP]) if GAP in row.columns else []
            scale.add({name: [*select(values[row.name], column=LOSS), *gaps]})
        orders = order_found({name: curves.get(row.name, {}) for name, row in group})
        # Not even `none` is known where no gap was measured: losses of answers, for instance, have no such plateau.
        for name, row in (each for each in group if GAP in each[1].columns):
            known, is_on_it = order_known(scale.losses(), name), scale.is_on_plateau(name)
            told[row.name] = replace(row, order_found=orders.get(name), order_known=known, on_plateau=is_on_it)
    return [told.get(row.name, row) for row in rows]


def with_heldout_lengths(rows: Sequence[Row], plan: Iterable[PlannedRow], lengths: list[int]) -> list[Row]:
    """The rows, each with the mean loss over its finished pre-trainings at each length, see `relpos.measures.kinds.lengths`.

    The loss is None if the scheme does not serve the length, if no pre-training is finished, or if one cannot be measured, which is
    said on stderr.
    """
    measured = [[_losses_at(run, lengths) for run in each.pretrainings if lengths and run.state == "finished"] for each in plan]
    means = [{str(length): mean_if_all([by_length.get(length) for by_length in row]) for length in lengths} for row in measured]
    return [replace(row, heldout_by_length=by_length) for row, by_length in zip(rows, means, strict=True)]


def _losses_at(run: Run, lengths: Sequence[int]) -> Mapping[int, float | None]:
    try:
        return losses(run.path, lengths)
    except RelposError as error:  # the text is too short, or the weights are not here: no reason to go without the table
        say(f"relpos: {run.name} without lengths: {error}")
        return {}


def _mean_curve(runs: Sequence[Run]) -> list[tuple[int, float]]:
    """(step, held-out loss): the mean over pre-trainings, the finished ones where one is, at the steps that all have reached."""
    # A run that has logged nothing yet would leave no step that all have reached.
    curves = [curve for run in [run for run in runs if run.state == "finished"] or runs if (curve := _curve(run))]
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
            recipe, steps, tokens = Recipe.of(run.config["recipe"]), run.config["steps"], run.config["batch"] * run.config["length"]
            end = steps if recipe.schedule == "linear" else recipe.decay_start(steps)
            curves[run.config["seed"]] = {step * tokens: loss for step, loss in _curve(run).items() if step <= end}
    return curves


def column(values: Sequence[Value], states: Sequence[str], several: bool, metric: str) -> Column:
    """A column of a row, of runs in these states and the values of those that are finished: of a task one for each fine-tuning, of
    a measure one for each pre-training. Several pre-trainings of a row are the units.
    """
    made = summary([each.value for each in values], [each.pretrain_seed for each in values] if several else None)
    figures = [each.figure for each in values if each.figure is not None]
    n_failed = states.count("failed")
    # Of the first run: all runs of a column have the same task or pairs, and so the same examples.
    majority = values[0].majority if values else None
    examples = figures[0].n if figures else values[0].examples if values else None
    constant = majority if majority is not None and not figures else -np.inf
    return replace(
        made,
        seeds=[seeds(each) for each in values],
        best=None if metric == NATS else made.best,  # more is not better
        interval=_of_figures(figures, made, values[0].column) if figures else interval_of_answers(values) or made.interval,
        n_failed=n_failed,
        n_missing=len(states) - len(values) - n_failed,
        # Not `==`: × 100 and a mean of two metrics leave a rounding error.
        n_collapsed=sum(each.value <= constant + 1e-9 for each in values),
        majority=majority,
        examples=examples,
        metric=metric,
    )


def summary(values: Sequence[float], pretrainings: Sequence[Hashable] | None = None) -> Column:
    """Mean, its standard error s/√n and bootstrap interval (none for a single value), best and median of some scores.

    Args:
        values: of fine-tunings.
        pretrainings: for each value, the pre-training that it started from, if there are several. Fine-tunings of one pre-training
            are not independent of each other: mean, error and interval are then those of the pre-trainings' means.

    >>> column = summary([70.0, 71.0, 75.0])
    >>> column.mean, column.best, column.median
    (72.0, 75.0, 71.0)
    >>> summary([70.0, 71.0], pretrainings=[0, 0]).sem is None  # one pre-training has no spread
    True
    """
    units = list(per_group(pretrainings, values).values()) if pretrainings is not None else list(values)
    if not values:
        return Column()
    return Column(
        values=list(values),
        mean=float(np.mean(units)),
        sem=float(np.std(units, ddof=1) / np.sqrt(len(units))) if len(units) > 1 else None,
        best=max(values),
        median=float(np.median(values)),
        interval=mean_interval(units),
    )


def interval_of_answers(values: Sequence[Value]) -> Interval | None:
    """95 % Multi-Bootstrap interval of the mean score × 100, over pre-trainings and dev examples at once.

    A pre-training counts with the mean over its fine-tunings. None if there are fewer than two pre-trainings, or if a run has
    not kept its answers on the dev set.
    """
    # Fine-tunings of one pre-training share its luck: seeds are drawn by pre-training.
    groups = by(values, "pretrain_seed")
    if len(groups) < 2 or not all(each.answers for each in values):
        return None
    dev_sets = [[answers(each.answers) for each in group if each.answers] for group in groups.values()]
    shapes = {dev_set.shape for group in dev_sets for dev_set in group}
    # Dev sets of several sizes are those of several versions of the data.
    if len(shapes) > 1:
        return None
    # An array needs as many fine-tunings of each pre-training: those beyond the fewest are left out.
    fewest = min(map(len, dev_sets))
    metric = find(values[0].metric, "metric", "task.metric")

    def mean(drawn: NDArray[np.float64]) -> float:
        """Mean score of `fewest` fine-tunings; `drawn` is (examples, fine-tunings, 2)."""
        # What is not a number counts as 0, see `applied`, which would look the metric up for each of some thousand draws.
        return 100 * sum(np.nan_to_num(metric(drawn[:, tuning, 0], drawn[:, tuning, 1])) for tuning in range(fewest)) / fewest

    # (pre-trainings, examples, fine-tunings, 2)
    return multi_bootstrap(np.stack([np.stack(group[:fewest], 1) for group in dev_sets]), RESAMPLES, mean)


def _of_figures(figures: Sequence[Figure], made: Column, name: str) -> Interval | None:
    """The 95 % interval of a measured column: of one network, over its examples or pairs; of a few networks, by the t-distribution
    over them, because a bootstrap of a few is too narrow; of `FEWEST` or more, by bootstrap over networks and examples.

    Networks that agree to the last digit show no spread: they have the interval of the first one.
    """
    # A spread of zero would make an interval without width, as if one network were proof.
    if made.mean is None or not made.sem:
        return figures[0].interval
    if len(figures) >= FEWEST:
        parts = [figure.parts for figure in figures if figure.parts is not None]
        if len(parts) < len(figures):  # those that have them would stand for the others
            return made.interval
        # (networks, examples) of numerators, then of denominators.
        both = np.stack(parts, 1)
        low, high = crossed_interval(both[0], both[1], figures[0].groups or None)
    else:
        around = Difference(made.mean, made.sem, freedom=len(figures) - 1, n=len(figures))
        low, high = around.low, around.high
    bounds = measured_columns()[name][1].bounds
    # A t-interval knows no bounds: an accuracy near 100 would get more.
    return (low, high) if bounds is None else (max(low, bounds[0]), min(high, bounds[1]))


def mean_column(columns: Mapping[str, Column], several: bool) -> Column:
    """The mean of GLUE's columns, seed by seed; a seed that lacks a column counts as missing.

    `best` is the mean of the columns' bests, because a submission is made of the best run of each task; `median` likewise.
    """
    names = columns_named(MEAN, columns)
    if not names:
        return Column()
    parts = [columns[name] for name in names]
    single = mean_of([part.by_seed for part in parts])
    mean = summary(list(single.values()), [pretraining for pretraining, _ in single] if several else None)
    # Of the column with most runs: one that was cut short must not hide that seeds are missing.
    planned = max(len(part.values) + part.n_failed + part.n_missing for part in parts)
    return replace(
        mean,
        seeds=list(single),
        of=names,
        best=mean_if_all([part.best for part in parts]),
        median=mean_if_all([part.median for part in parts]),
        n_missing=planned - len(mean.values),
    )
