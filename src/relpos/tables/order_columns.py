"""The columns of a table about order: shuffle gap and minimal pairs of each row's pre-trainings, at the end and at their snapshots.

The networks are measured once the runs are finished, by as many processes as the engine has workers on this machine. That takes
some seconds per network. The figures are kept in the folders of the runs, where `relpos order` finds them, see
`relpos.measures.kept`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from relpos.analysis.resampling import crossed_interval
from relpos.measures.measure import NATS, Figure, MeasuredColumn, Results, measured_columns
from relpos.results.statistics import Difference, Interval
from relpos.tables.columns import summary
from relpos.tables.order_instrument import Each, Instrument, ToMeasure, in_turn, results_of
from relpos.tables.plan import PlannedRow
from relpos.tables.row import Column, Row

FEWEST = 5
"""The fewest pre-trainings whose interval is bootstrapped. Over fewer a bootstrap is too narrow: they get a t-interval."""


def with_order(rows: Sequence[Row], plan: Iterable[PlannedRow], instrument: Instrument, each: Each = in_turn) -> list[Row]:
    """The rows with the columns about order in front, and with those of their snapshots.

    Args:
        rows: of the table.
        plan: has their runs.
        instrument: what is measured.
        each: measures the networks that are not measured yet.
    """
    plan = list(plan)
    results = results_of([run for planned in plan for run in planned.pretrainings], instrument, each)
    return [_with_order(row, planned, instrument, results) for row, planned in zip(rows, plan, strict=True)]


def _with_order(row: Row, planned: PlannedRow, instrument: Instrument, results: Sequence[tuple[ToMeasure, Results]]) -> Row:
    states, folders = [run.state for run in planned.pretrainings], {run.path for run in planned.pretrainings}
    at_end: dict[int, Results] = {}
    course: dict[int, dict[int, Results]] = {}
    for asked, figures in results:
        # By folder: rows may share a pre-training, which is measured once.
        if asked.run.path in folders:
            by_seed = at_end if asked.instrument is instrument else course.setdefault(asked.percent, {})
            by_seed[asked.run.config["seed"]] = figures
    names = instrument.columns(snapshots=True)
    of_course = {percent: order_columns(names, course[percent], states) for percent in sorted(course)}
    return replace(row, columns=order_columns(instrument.columns(), at_end, states) | row.columns, snapshots=of_course)


def order_columns(names: Iterable[str], by_seed: Mapping[int, Results], states: list[str]) -> dict[str, Column]:
    """The columns of these names; `by_seed` are the figures of the finished pre-trainings, `states` those of all."""
    made, known = {}, measured_columns()
    n_failed = states.count("failed")
    for name in names:
        measure, kind = known[name]
        figures = {seed: figure for seed, results in by_seed.items() if (figure := measure.figure(name, results)) is not None}
        column = _column(kind, figures, by_pretraining=len(states) > 1)
        made[name] = replace(column, n_failed=n_failed, n_missing=len(states) - n_failed - len(figures))
    return made


def _column(kind: MeasuredColumn, figures: dict[int, Figure], by_pretraining: bool) -> Column:
    """Mean, standard error and interval over pre-trainings."""
    column = summary([figure.value for figure in figures.values()])
    return replace(
        column,
        seeds=[str(seed) if by_pretraining else seed for seed in figures],
        metric=kind.metric,
        # The same for all networks of a table, which share dials and pairs.
        majority=next((figure.guess for figure in figures.values()), None),
        examples=next((figure.n for figure in figures.values()), None),
        best=None if kind.metric == NATS else column.best,  # more is not better
        interval=_interval(list(figures.values()), column, kind.bounds),
    )


def _interval(figures: list[Figure], column: Column, bounds: Interval | None) -> Interval | None:
    """The 95 % interval: of one network, over its examples or pairs; of a few networks, by the t-distribution over them, because a
    bootstrap of a few is too narrow; of `FEWEST` or more, by bootstrap over networks and examples.

    Networks that agree to the last digit show no spread: they have the interval of the first one.

    Args:
        figures: of the networks.
        column: their mean and standard error.
        bounds: the least and the largest possible value; None: there are none.
    """
    if not figures:
        return None
    # A spread of zero would make an interval without width, as if one network were proof.
    if column.mean is None or not column.sem:
        return figures[0].interval
    if len(figures) >= FEWEST:
        parts = [figure.parts for figure in figures if figure.parts is not None]
        if not parts:
            return column.interval
        # (networks, examples) of numerators, then of denominators.
        both = np.stack(parts, 1)
        low, high = crossed_interval(both[0], both[1], figures[0].groups or None)
    else:
        around = Difference(column.mean, column.sem, freedom=len(figures) - 1, n=len(figures))
        low, high = around.low, around.high
    # A t-interval knows no bounds: an accuracy near 100 would get more.
    return (low, high) if bounds is None else (max(low, bounds[0]), min(high, bounds[1]))
