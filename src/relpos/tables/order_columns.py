"""The columns of a table about order: shuffle gap and minimal pairs of each row's pre-trainings, at the end and at their snapshots.

The process that makes the table measures them once the runs are finished, which takes some seconds a network. The figures are kept
in the folders of the runs, see `relpos.runs.order`, and shared with `relpos order`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from relpos.data.pairs import AutoPairs, PairSource
from relpos.errors import RelposError, nearest
from relpos.runs.config import compose, instantiate
from relpos.runs.order import measured, snapshots, suited
from relpos.runs.order_measures import Dials, Results
from relpos.runs.trained import Trained, trained
from relpos.tables.columns import summary
from relpos.tables.experiment import Experiment
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
KEYS = ("pairs", "examples", "form", "accelerator", "threads")
"""Keys of `relpos order` that a table may set."""
END = 100
"""Per cent of the steps at the end of a pre-training."""


@dataclass(frozen=True)
class Instrument:
    """What is measured of each network, and how.

    Args:
        measures: `shuffle` and `pairs`, or one of them.
        dials: as `relpos order` has them.
        pairs: the same pairs for all networks, or for each those that suit it.
        accelerator: auto, cpu or gpu.
        threads: CPU threads; None: all cores.
        snapshots: what is measured of the snapshots; None: nothing.
    """

    measures: list[str]
    dials: Dials
    pairs: PairSource | AutoPairs
    accelerator: str = "auto"
    threads: int | None = None
    snapshots: Instrument | None = None

    def results(self, subject: Trained) -> Results:
        """The figures of a network; a measure that fails is named on stderr and left out."""
        figures: Results = {}
        for measure in self.measures:
            try:
                source = suited(self.pairs, subject) if measure == "pairs" else None
                dials = replace(self.dials, measures=(measure,))
                figures |= measured(subject, dials, source, self.accelerator, self.threads)
            except RelposError as error:
                print(f"relpos: {subject.name} without {measure}: {error}", file=sys.stderr)
        return figures

    def columns(self) -> list[str]:
        """The names of the columns that these measures give."""
        return [name for measure in self.measures for name in ORDER[measure]]


def instrument(experiment: Experiment, overrides: Iterable[str] = (), plan: Iterable[PlannedRow] = ()) -> Instrument | None:
    """What the stages `order` and `order_snapshots` of a table ask for; None if the table has no columns about order.

    Args:
        experiment: what the file says.
        overrides: of the command line; those that begin with `order.` or `order_snapshots.` count.
        plan: the rows; they must keep snapshots if snapshots are to be measured.

    Raises:
        RelposError: an override is wrong, named pairs cannot be read, or a row keeps no snapshots.
    """
    if not experiment.order:
        return None
    overrides = list(overrides)
    chosen = _overrides("order", experiment, overrides)
    of_ends = _instrument(experiment, "order", chosen)
    if "order_snapshots" not in experiment.stages:
        return of_ends
    for row in plan:
        if row.pretrainings and not row.pretrainings[0].config["snapshots"]:
            raise RelposError(
                f"table {experiment.name}, row {row.name!r}: stages.order_snapshots: no snapshots are kept; "
                "name some, as in stages.pretrain: [snapshots=[10,30]]"
            )
    of_snapshots = [*chosen, *_overrides("order_snapshots", experiment, overrides)]
    return replace(of_ends, snapshots=_instrument(experiment, "order_snapshots", of_snapshots))


def _overrides(stage: str, experiment: Experiment, overrides: list[str]) -> list[str]:
    typed = [override.removeprefix(f"{stage}.") for override in overrides if override.startswith(f"{stage}.")]
    return [*experiment.stages.get(stage, []), *typed]


def _instrument(experiment: Experiment, stage: str, overrides: list[str]) -> Instrument:
    for override in overrides:
        key = override.lstrip("+~").partition("=")[0].split(".")[0]
        if key not in KEYS:
            raise RelposError(f"table {experiment.name}: {stage}.{override}: not a dial of a table.{nearest(key, KEYS)}")
    cfg = compose("order", ["from=''", *overrides])
    pairs: PairSource | AutoPairs = instantiate(cfg.pairs)
    if "pairs" in experiment.order and not isinstance(pairs, AutoPairs):
        pairs.pairs()  # so that pairs that cannot be read are refused before anything is trained
    return Instrument(list(experiment.order), Dials(None, cfg.examples, cfg.form), pairs, cfg.accelerator, cfg.threads)


def with_order(rows: Sequence[Row], plan: Iterable[PlannedRow], instrument: Instrument | None) -> list[Row]:
    """The rows with the columns about order in front, and with those of their snapshots; `plan` has their runs."""
    if instrument is None:
        return list(rows)
    return [_with_order(row, planned, instrument) for row, planned in zip(rows, plan, strict=True)]


def _with_order(row: Row, planned: PlannedRow, instrument: Instrument) -> Row:
    states = [run.state for run in planned.pretrainings]
    subjects = {
        run.config["seed"]: trained(run.path)
        for run, state in zip(planned.pretrainings, states, strict=True)
        if state == "finished"
    }
    ends = {seed: instrument.results(subject) for seed, subject in subjects.items()}
    columns = order_columns(instrument.columns(), ends, states)
    course: dict[int, dict[str, Column]] = {}
    if instrument.snapshots is not None:
        names = [*([LOSS] if "shuffle" in instrument.measures else []), *instrument.columns()]
        networks = {seed: snapshots(subject) | {END: subject} for seed, subject in subjects.items()}
        for share in sorted({share for of_seed in networks.values() for share in of_seed}):
            by_seed = {seed: instrument.snapshots.results(of_seed[share]) for seed, of_seed in networks.items() if share in of_seed}
            course[share] = order_columns(names, by_seed, states)
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
