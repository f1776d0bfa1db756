"""The columns of a table about order: shuffle gap and minimal pairs of each row's pre-trainings, at the end and at their snapshots.

They are measured once the runs are finished, which takes some seconds a network, by as many processes as the engine has workers on
this machine. The figures are kept in the folders of the runs, see `relpos.runs.order`, and shared with `relpos order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from relpos.runs.order_measures import Results
from relpos.tables.columns import summary
from relpos.tables.order_instrument import END, Each, Instrument, in_turn, results_of
from relpos.tables.plan import PlannedRow
from relpos.tables.row import LOSS, NATS, ORDER, Column, Row
from relpos.tables.statistics import Difference, Interval

Floats = npt.NDArray[np.float64]
FEWEST = 5
"""The fewest pre-trainings whose interval is bootstrapped. Over fewer a bootstrap is too narrow: they get a t-interval."""
RIGHT = {"1": 1.0, "0": 0.0, "t": 0.5}
"""Mark of a pair among the kept answers → its part of a right answer: right, wrong, tied."""
GUESS = 50.0
"""Accuracy of guessing on minimal pairs."""
GROUPS = {"same_word_pairs": "same_words", "other_pairs": "others"}
"""Column → its key among the results for pairs."""


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


def _with_order(row: Row, planned: PlannedRow, instrument: Instrument, results: Mapping[Path, dict[int, list[Results]]]) -> Row:
    states = [run.state for run in planned.pretrainings]
    by_seed = {run.config["seed"]: results[run.path] for run in planned.pretrainings if run.path in results}
    columns = order_columns(instrument.columns(), {seed: of_seed[END][0] for seed, of_seed in by_seed.items()}, states)
    course: dict[int, dict[str, Column]] = {}
    if instrument.snapshots is not None:
        names = [*([LOSS] if "shuffle" in instrument.measures else []), *instrument.columns()]
        for share in sorted({share for of_seed in by_seed.values() for share in of_seed}):
            then = {seed: of_seed[share][-1] for seed, of_seed in by_seed.items() if share in of_seed}
            course[share] = order_columns(names, then, states)
    return replace(row, columns=columns | row.columns, snapshots=course)


def order_columns(names: Iterable[str], by_seed: Mapping[int, Results], states: list[str]) -> dict[str, Column]:
    """The columns of these names; `by_seed` are the figures of the finished pre-trainings, `states` those of all."""
    columns = {}
    n_failed = states.count("failed")
    for name in names:
        figures = {seed: figure for seed, results in by_seed.items() if (figure := _figure(name, results)) is not None}
        column = _column(name, figures, by_pretraining=len(states) > 1)
        columns[name] = replace(column, n_failed=n_failed, n_missing=len(states) - n_failed - len(figures))
    return columns


@dataclass(frozen=True)
class _Figure:
    """One network's figure.

    Args:
        interval: 95 %, over examples or over pairs of these paradigms.
        n: number of pairs.
        parts: (2, examples or pairs): the figure is the sum of the first line over the sum of the second; None for a loss.
        groups: the paradigm of each pair.
    """

    value: float
    interval: Interval | None = None
    n: int | None = None
    parts: Floats | None = None
    groups: tuple[str, ...] | None = None


def _figure(name: str, results: Results) -> _Figure | None:
    if name == LOSS:
        return _Figure(results["heldout_loss"]) if "heldout_loss" in results else None
    if name in ORDER["shuffle"]:
        if "shuffle_gap" not in results:
            return None
        low, high = results["shuffle_gap_intervals"]["all"]
        parts = np.array([results["by_example"]["all"], results["by_example"]["predicted"]], np.float64)
        return _Figure(results["shuffle_gap"]["all"], (low, high), parts=parts)
    pooled = results.get("pairs", {}).get(GROUPS[name], {})
    if pooled.get("accuracy") is None:
        return None
    answers = [(paradigm, mark) for paradigm, marks in results["answers"][GROUPS[name]].items() for mark in marks]
    right = np.array([100 * RIGHT[mark] for _, mark in answers])
    parts = np.stack([right, np.ones(len(right))])
    low, high = pooled["interval"]
    return _Figure(pooled["accuracy"], (low, high), pooled["n"], parts, tuple(paradigm for paradigm, _ in answers))


def _column(name: str, figures: dict[int, _Figure], by_pretraining: bool) -> Column:
    """Mean, standard error and interval over pre-trainings."""
    is_loss_or_gap = name == LOSS or name in ORDER["shuffle"]
    values = [figure.value for figure in figures.values()]
    column = summary(values)
    return replace(
        column,
        seeds=[str(seed) if by_pretraining else seed for seed in figures],
        metric=NATS if is_loss_or_gap else "accuracy",
        majority=None if is_loss_or_gap else GUESS,
        examples=next((figure.n for figure in figures.values()), None),
        best=None if is_loss_or_gap else column.best,  # more is not better
        interval=_interval(list(figures.values()), column, None if is_loss_or_gap else (0.0, 100.0)),
    )


def _interval(figures: list[_Figure], column: Column, bounds: Interval | None) -> Interval | None:
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
    if column.mean is None or not column.sem:
        return figures[0].interval
    if len(figures) >= FEWEST:
        parts = [figure.parts for figure in figures if figure.parts is not None]
        if not parts:
            return column.interval
        from relpos.analysis.resampling import crossed_interval  # loads torch

        both = np.stack(parts, 1)
        low, high = crossed_interval(both[0], both[1], figures[0].groups or None)
    else:
        around = Difference(column.mean, column.sem, freedom=len(figures) - 1, n=len(figures))
        low, high = around.low, around.high
    return (low, high) if bounds is None else (max(low, bounds[0]), min(high, bounds[1]))
