"""The rows of a planned table. A row selects the values of its finished runs; a column is their
mean with spread and count.

Missing numbers are None, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from relpos.analysis.resampling import crossed_interval, mean_interval, multi_bootstrap
from relpos.errors import RelposError, say
from relpos.measures.kinds.lengths import Lengths
from relpos.measures.measure import NATS, Figure, MeasuredColumn, measured_columns
from relpos.measures.measured import measured
from relpos.measures.sample import Sample
from relpos.process import without_keys
from relpos.readers import Plain
from relpos.results.plateau import NONE, Curve, order_found, order_known
from relpos.results.scale import (
    MEAN,
    Scale,
    columns_named,
    mean_of,
    scheme,
    scores_by_seeds,
)
from relpos.results.statistics import Difference, Interval
from relpos.results.values import (
    GAP,
    LOSS,
    Seed,
    Value,
    answers,
    by,
    by_pretraining,
    figure_values,
    pretraining_values,
    rates_of,
    select,
    tuning_values,
)
from relpos.runs.networks import of_run
from relpos.runs.run import Run, within_runs
from relpos.runs.shelf import logged
from relpos.runs.table_file import RowRun
from relpos.stages.measure import MeasureStage
from relpos.tables.measurements import Instrument
from relpos.tables.plan import PlannedRow, Tuning
from relpos.tables.table import PLAIN, Column, Row, column_values, mean_if_all
from relpos.train.optim import Recipe
from relpos.trust import find

WHOLE = 0.99
"""The share of a task's official rows that counts as all: broken rows of the files are left out."""
FEWEST = 5
"""The fewest pre-trainings whose measured figures are bootstrapped. A bootstrap of fewer is too
narrow: they get a t-interval."""
RESAMPLES = 500


def rows_of(
    plan: Sequence[PlannedRow],
    instrument: Instrument | None = None,
) -> list[Row]:
    """The rows of a table, without the numbers with which `comparison` compares them.

    Args:
        plan: the planned rows.
        instrument: measures for columns about order; None: there are no such columns.
    """
    values = {planned.name: list(values_of(planned)) for planned in plan}
    rows = [_row(planned, values[planned.name]) for planned in plan]
    if instrument is None:
        return rows
    ordered = [
        _with_order(row, planned.pretrainings, instrument)
        for row, planned in zip(rows, plan, strict=True)
    ]
    return with_plateau(ordered, plan, values)


def values_of(planned: PlannedRow) -> Iterator[Value]:
    """The numbers of a row's finished runs."""
    for run in planned.pretrainings:
        if (record := run.record).state == "finished":
            yield from pretraining_values(run.path, record)
    for tuning in planned.tunings:
        if (record := tuning.run.record).state == "finished":
            # Its pre-training is the one of the plan, whatever folders the record names.
            for value in tuning_values(tuning.run.path, [record], None):
                yield replace(value, pretrain_seed=tuning.pretrain_seed)


def _row(planned: PlannedRow, values: Sequence[Value]) -> Row:
    several = len(planned.pretrainings) > 1
    runs = list(_runs(planned))
    columns: dict[str, Column] = {}
    parts: dict[str, tuple[int, int]] = {}
    read = {value.run: int(value.value) for value in select(values, column="training_rows")}
    for task, tunings in by(planned.tunings, "task").items():
        node = tunings[0].run.meaning["task"]
        # Only GLUE's files can be parts of an official release.
        glue = [tuning.run for tuning in tunings if "glue" in tuning.run.meaning]
        most = max((read.get(run.path, 0) for run in glue), default=0)
        if 0 < most < WHOLE * node["rows"]:
            parts[task] = most, node["rows"]
        states = [run.state for run in runs if run.task == task]
        # MNLI has two dev sets: one task may fill two columns.
        for name in node["columns"]:
            scored = select(values, stage="finetune", column=name)
            columns[name] = column(scored, states, several, node["metric"].rpartition(".")[2])
    plain: Plain = {}
    for name, kind in ({"position_parameters": int} | {of.name: of.kind for of in PLAIN}).items():
        if recorded := select(values, stage="pretrain", column=name):
            plain[name] = kind(np.mean([value.value for value in recorded]))
    config = planned.pretrainings[0].meaning if planned.pretrainings else {}
    position_lr, conv_lr = rates_of(config)
    return Row(
        name=planned.name,
        overrides=without_keys(planned.overrides),
        position_lr=position_lr,
        conv_lr=conv_lr,
        columns=columns,
        mean=mean_column(columns, several),
        heldout_loss=_mean_curve(planned.pretrainings),
        parts=parts,
        runs=runs,
        **plain,
    )


def _runs(row: PlannedRow) -> Iterator[RowRun]:
    """The pre-trainings of a row, then its fine-tunings, as their records are now."""
    seeds = [run.config.seed or 0 for run in row.pretrainings]
    trained = map(partial(Tuning, ""), seeds, seeds, row.pretrainings)
    for tuning in (*trained, *row.tunings):
        record = tuning.run.record
        yield RowRun(
            stage=tuning.run.stage,
            identity=tuning.run.identity,
            state=record.state,
            path=within_runs(tuning.run.path),
            task=tuning.task or None,
            pretrain_seed=tuning.pretrain_seed,
            seed=tuning.seed,
            columns=record.columns,
            error=record.error,
        )


def _with_order(row: Row, pretrainings: Sequence[Run], instrument: Instrument) -> Row:
    """The row with the columns about order in front, and with those of its snapshots."""
    states = [run.state for run in pretrainings]
    at_end: list[Value] = []
    course: dict[int, list[Value]] = {}
    for run in pretrainings:
        for measurement in instrument.at_end(run):
            at_end += _values_of(measurement)
        for measurement in instrument.along(run):
            course.setdefault(measurement.config.share, []).extend(_values_of(measurement))
    of_snapshots = [kind for measure in instrument.measures for kind in measure.columns]
    of_ends = [kind for kind in of_snapshots if not kind.snapshots_only]
    columns = order_columns(of_ends, at_end, states) | row.columns
    snapshots = {at: order_columns(of_snapshots, course[at], states) for at in sorted(course)}
    return replace(row, columns=columns, snapshots=snapshots)


def _values_of(run: MeasureStage) -> Iterator[Value]:
    """The values that the results of a measurement give."""
    network = run.inputs["network"]
    base = Value(
        network.path,
        "pretrain",
        "",
        0.0,
        pretrain_seed=network.config.seed,
        percent=run.config.share,
    )
    return figure_values(base, run.measure, run.results() or {})


def order_columns(
    kinds: Iterable[MeasuredColumn],
    values: Sequence[Value],
    states: Sequence[str],
) -> dict[str, Column]:
    """Measured columns with mean, standard error and interval over pre-trainings.

    Args:
        kinds: the columns.
        values: of the pre-trainings.
        states: of the pre-trainings, finished or not.
    """
    return {
        kind.name: column(select(values, column=kind.name), states, len(states) > 1, kind.metric)
        for kind in kinds
    }


def with_plateau(
    rows: Sequence[Row],
    plan: Iterable[PlannedRow],
    values: Mapping[str, Sequence[Value]],
) -> list[Row]:
    """The rows with `order_found`, `order_known` and `on_plateau`, if the shuffle gap is among
    their columns.

    Args:
        rows: rows whose columns about order were measured.
        plan: the planned rows.
        values: row → numbers of its finished runs.
    """
    curves = {planned.name: constant_phase(planned.pretrainings) for planned in plan}
    without = scheme([f"position={NONE}"])
    groups: dict[str, list[tuple[str, Row]]] = {}  # scale → its rows, with their names there
    for row in rows:
        if losses := select(values[row.name], column=LOSS):
            # The scheme decides, because a table of convolutions may have a row called `none` with
            # positions.
            name = NONE if losses[0].scheme == without else f"row {row.name}"
            groups.setdefault(losses[0].scale, []).append((name, row))
    placed: dict[str, Row] = {}
    for group in groups.values():
        scale = Scale()
        for name, row in group:
            # Whether `none` itself knows order, as it does under causal attention, decides for the
            # other rows of the scale.
            gaps = column_values(GAP, row.columns.get(GAP, Column()))
            scale.add({name: [*select(values[row.name], column=LOSS), *gaps]})
        orders = order_found({name: curves[row.name] for name, row in group})
        for name, row in group:
            # Without a gap nothing is said even of `none`: losses of answers, for instance, have no
            # such plateau.
            if GAP in row.columns:
                placed[row.name] = replace(
                    row,
                    order_found=orders.get(name),
                    order_known=order_known(scale.losses(), name),
                    on_plateau=scale.is_on_plateau(name),
                )
    return [placed.get(row.name, row) for row in rows]


def with_heldout_lengths(
    rows: Sequence[Row],
    plan: Iterable[PlannedRow],
    lengths: list[int],
) -> list[Row]:
    """The rows with the mean loss of their finished pre-trainings at each length, see
    `relpos.measures.kinds.lengths`.

    The loss is None if the scheme does not serve the length, if no pre-training is finished, or if
    one cannot be measured (stderr then says why).
    """
    if not lengths:
        return list(rows)
    result = []
    for row, planned in zip(rows, plan, strict=True):
        by_run = [
            _losses_at(run, lengths) for run in planned.pretrainings if run.state == "finished"
        ]
        means = {str(length): mean_if_all([at.get(length) for at in by_run]) for length in lengths}
        result.append(replace(row, heldout_by_length=means))
    return result


def _losses_at(run: Run, lengths: Sequence[int]) -> Mapping[int, float | None]:
    try:
        results = measured(Sample(of_run(run.path)), [Lengths(lengths)])
        return {int(length): at.get("loss") for length, at in results["lengths"].items()}
    except RelposError as error:  # the text is too short, or the weights are not here; the table appears all the same
        say(f"relpos: {run.name} without lengths: {error}")
        return {}


def _mean_curve(runs: Sequence[Run]) -> list[tuple[int, float]]:
    """(step, held-out loss) at the steps that all pre-trainings have reached: the mean over the
    finished ones, if there are any."""
    finished = [run for run in runs if run.state == "finished"]
    # A run that has logged nothing yet would leave no step that all have reached.
    curves = list(filter(None, map(_curve, finished or runs)))
    if not curves:
        return []
    steps = sorted(set.intersection(*map(set, curves)))
    return [(step, sum(curve[step] for curve in curves) / len(curves)) for step in steps]


def _curve(run: Run) -> dict[int, float]:
    return {line["step"]: line[LOSS] for line in logged(run.path) if LOSS in line}


def constant_phase(runs: Sequence[Run]) -> dict[int, Curve]:
    """Pre-training seed → tokens (padding included) → held-out loss, for finished runs, until their
    learning rate falls.

    A linear schedule, whose rate falls from the beginning, gives the whole training.
    """
    curves: dict[int, Curve] = {}
    for run in runs:
        # A first phase of shorter texts has fewer tokens a step.
        if run.state == "finished" and "first" not in run.meaning:
            recipe = Recipe.of(run.meaning["recipe"])
            end = run.meaning["steps"]
            if recipe.schedule != "linear":
                end = recipe.decay_start(end)
            tokens = run.meaning["batch"] * run.meaning["length"]
            until = {step * tokens: loss for step, loss in _curve(run).items() if step <= end}
            curves[run.meaning["seed"]] = until
    return curves


def column(values: Sequence[Value], states: Sequence[str], several: bool, metric: str) -> Column:
    """A column of a row.

    Args:
        values: of the finished runs: one for each fine-tuning of a task, or for each pre-training
            that was measured.
        states: of all runs, finished or not.
        several: whether the row has several pre-trainings, which are then the units of mean, error
            and interval.
        metric: of the scores.
    """
    n_failed = states.count("failed")
    result = replace(
        summary(scores_by_seeds(values), several),
        n_failed=n_failed,
        n_missing=len(states) - len(values) - n_failed,
        metric=metric,
    )
    if not values:
        return result
    # All runs of a column have the same task or pairs, and so the same examples as the first one.
    first, n_collapsed = values[0], 0
    figures = [value.figure for value in values if value.figure is not None]
    if figures:
        examples = figures[0].n
        interval = _of_figures(figures, result, first.column)
    else:
        examples = first.examples
        interval = interval_of_answers(values) or result.interval
        if first.majority is not None:
            # Not `==`, because × 100 and a mean of two metrics leave a rounding error.
            n_collapsed = sum(value.value <= first.majority + 1e-9 for value in values)
    return replace(
        result,
        best=None if metric == NATS else result.best,  # a higher loss is not better
        interval=interval,
        n_collapsed=n_collapsed,
        majority=first.majority,
        examples=examples,
    )


def summary(scores: Mapping[Seed, float], several: bool = False) -> Column:
    """Mean, its standard error s/√n and bootstrap interval (none for a single value), best and
    median of some scores.

    Args:
        scores: of fine-tunings, by their seeds.
        several: whether their pre-trainings are the units. Fine-tunings of one pre-training are not
            independent of each other: mean, error and interval are then those of the pre-trainings'
            means.

    >>> column = summary({(0, 0): 70.0, (0, 1): 71.0, (0, 2): 75.0})
    >>> column.mean, column.best, column.median
    (72.0, 75.0, 71.0)
    >>> summary({(0, 0): 70.0, (0, 1): 71.0}, several=True).sem is None  # one pre-training has no spread
    True
    """
    if not scores:
        return Column()
    values = list(scores.values())
    units = list(by_pretraining(scores).values()) if several else values
    return Column(
        values=values,
        seeds=list(scores),
        mean=float(np.mean(units)),
        sem=float(np.std(units, ddof=1) / np.sqrt(len(units))) if len(units) > 1 else None,
        best=max(values),
        median=float(np.median(values)),
        interval=mean_interval(units),
    )


def interval_of_answers(values: Sequence[Value]) -> Interval | None:
    """95 % Multi-Bootstrap interval of the mean score × 100, over pre-trainings and dev examples at
    once.

    A pre-training counts with the mean over its fine-tunings. None if there are fewer than two
    pre-trainings, or if a run has not kept its answers on the dev set.
    """
    # Fine-tunings of one pre-training depend on each other, so that pre-trainings are drawn.
    groups = by(values, "pretrain_seed")
    if len(groups) < 2 or not all(value.answers for value in values):
        return None
    dev_sets = [
        [answers(value.answers) for value in group if value.answers] for group in groups.values()
    ]
    # Dev sets of several sizes are from several versions of the data.
    if len({dev_set.shape for dev_set in chain(*dev_sets)}) > 1:
        return None
    # The array has equally many fine-tunings of each pre-training; those beyond the fewest are left
    # out.
    fewest = min(map(len, dev_sets))
    metric = find(values[0].metric, "metric", "task.metric")

    def mean(drawn: NDArray[np.float64]) -> float:
        """Mean score of `fewest` fine-tunings; `drawn` is (examples, fine-tunings, 2)."""
        scores = [metric(*drawn[:, tuning].T) for tuning in range(fewest)]
        # Not-a-number counts as 0, as in `applied`, which would look the metric up in each of some
        # thousand draws.
        return 100 * sum(map(np.nan_to_num, scores)) / fewest

    # (pre-trainings, examples, fine-tunings, 2)
    of_seeds = np.stack([np.stack(group[:fewest], 1) for group in dev_sets])
    return multi_bootstrap(of_seeds, RESAMPLES, mean)


def _of_figures(figures: Sequence[Figure], column: Column, name: str) -> Interval | None:
    """The 95 % interval of a measured column.

    For one network it is over examples or pairs, for a few by the t-distribution over networks, and
    for `FEWEST` or more by bootstrap over networks and examples. Networks that agree to the last
    digit have the interval of the first one.
    """
    # A spread of zero would make an interval without width, as if one network were proof.
    if column.mean is None or not column.sem:
        return figures[0].interval
    if len(figures) >= FEWEST:
        parts = [figure.parts for figure in figures if figure.parts is not None]
        # Figures with values by example would not represent those without.
        if len(parts) < len(figures):
            return column.interval
        # (networks, examples) each.
        numerators, denominators = np.stack(parts, 1)
        low, high = crossed_interval(numerators, denominators, figures[0].groups or None)
    else:
        around = Difference(column.mean, column.sem, freedom=len(figures) - 1, n=len(figures))
        low, high = around.low, around.high
    bounds = measured_columns()[name][1].bounds
    if bounds is None:
        return low, high
    # A t-interval has no bounds: for an accuracy near 100 it would end above 100.
    return max(low, bounds[0]), min(high, bounds[1])


def mean_column(columns: Mapping[str, Column], several: bool) -> Column:
    """The mean of GLUE's columns, seed by seed; a seed that lacks a column counts as missing.

    `best` is the mean of the columns' bests, because a submission has the best run of each task;
    `median` likewise.
    """
    names = columns_named(MEAN, columns)
    if not names:
        return Column()
    parts = [columns[name] for name in names]
    mean = summary(mean_of([part.by_seed for part in parts]), several)
    # The column with most runs counts: a column that was cut short must not hide missing seeds.
    planned = max(len(part.values) + part.n_failed + part.n_missing for part in parts)
    return replace(
        mean,
        of=names,
        best=mean_if_all([part.best for part in parts]),
        median=mean_if_all([part.median for part in parts]),
        n_missing=planned - len(mean.values),
    )
