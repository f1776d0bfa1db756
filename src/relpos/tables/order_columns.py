"""The columns of a table about order: shuffle gap and minimal pairs of each row's pre-trainings.

They are measured by the process that makes the table, once the runs are there: some seconds a network. The figures are kept in the
folders of the runs, see `relpos.tables.order`, and shared with `relpos order`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from relpos.data.pairs import AutoPairs, PairSource
from relpos.errors import RelposError, nearest
from relpos.runs.config import compose, instantiate
from relpos.runs.run import Run
from relpos.runs.trained import trained
from relpos.tables.columns import summary
from relpos.tables.experiment import Experiment
from relpos.tables.order import Dials, Results, measured, suited
from relpos.tables.plan import PlannedRow
from relpos.tables.row import NATS, ORDER, Column, Row
from relpos.tables.statistics import Difference, Interval

FEWEST = 5
"""Pre-trainings from which on the interval over them is bootstrapped; fewer get one by the t-distribution, which is wide enough."""
GUESS = 50.0
"""Accuracy of guessing on minimal pairs."""
GROUPS = {"same_word_pairs": "same_words", "other_pairs": "others"}
"""Column → its key among the results for pairs."""
KEYS = ("pairs", "examples", "form", "accelerator", "threads")
"""Keys of `relpos order` that a table may set."""


@dataclass(frozen=True)
class Instrument:
    """What is measured of each pre-training, and how.

    Args:
        measures: `shuffle` and `pairs`, or one of them.
        dials: as of `relpos order`.
        pairs: the pairs of all networks, or those that suit each.
        accelerator: auto, cpu or gpu.
        threads: CPU threads; None: all cores.
    """

    measures: list[str]
    dials: Dials
    pairs: PairSource | AutoPairs
    accelerator: str = "auto"
    threads: int | None = None

    def results(self, run: Run) -> Results:
        """The figures of a finished pre-training; what cannot be measured is told on stderr and left out."""
        subject = trained(run.path)
        found: Results = {}
        for measure in self.measures:
            try:
                source = suited(self.pairs, subject) if measure == "pairs" else None
                dials = replace(self.dials, measures=(measure,))
                found |= measured(subject, dials, source, self.accelerator, self.threads)
            except RelposError as error:
                print(f"relpos: {subject.name} without {measure}: {error}", file=sys.stderr)
        return found


def instrument(experiment: Experiment, words: Iterable[str] = ()) -> Instrument | None:
    """What `order` and the words of the stage `order` ask for; None where the table has no columns about order.

    Args:
        experiment: what the file says.
        words: of the command line; those that begin with `order.` count.

    Raises:
        RelposError: a word is wrong, or named pairs cannot be read.
    """
    if not experiment.order:
        return None
    typed = [word.removeprefix("order.") for word in words if word.startswith("order.")]
    chosen = [*experiment.stages.get("order", []), *typed]
    for word in chosen:
        key = word.lstrip("+~").partition("=")[0].split(".")[0]
        if key not in KEYS:
            raise RelposError(f"table {experiment.name}: order.{word}: not a dial of a table.{nearest(key, KEYS)}")
    cfg = compose("order", ["from=''", *chosen])
    pairs: PairSource | AutoPairs = instantiate(cfg.pairs)
    if "pairs" in experiment.order and not isinstance(pairs, AutoPairs):
        pairs.pairs()  # before anything is trained
    return Instrument(list(experiment.order), Dials(None, cfg.examples, cfg.form), pairs, cfg.accelerator, cfg.threads)


def with_order(rows: Sequence[Row], plan: Iterable[PlannedRow], given: Instrument | None) -> list[Row]:
    """The rows with the columns about order in front; `plan` has their runs."""
    if given is None:
        return list(rows)
    return [replace(row, columns=_columns(planned, given) | row.columns) for row, planned in zip(rows, plan, strict=True)]


def _columns(planned: PlannedRow, given: Instrument) -> dict[str, Column]:
    states = [run.state for run in planned.pretrainings]
    finished = [run for run, state in zip(planned.pretrainings, states, strict=True) if state == "finished"]
    by_seed = {run.config["seed"]: given.results(run) for run in finished}
    columns = {}
    for name in (name for measure in given.measures for name in ORDER[measure]):
        figures = {seed: figure for seed, results in by_seed.items() if (figure := _figure(name, results)) is not None}
        column = _column(name, figures, by_pretraining=len(states) > 1)
        n_failed = states.count("failed")
        columns[name] = replace(column, n_failed=n_failed, n_missing=len(states) - n_failed - len(figures))
    return columns


@dataclass(frozen=True)
class _Figure:
    """One network's figure, its 95 % interval over examples or pairs, and how many pairs there are."""

    value: float
    interval: Interval | None
    n: int | None


def _figure(name: str, results: dict[str, Any]) -> _Figure | None:
    if name in ORDER["shuffle"]:
        if "shuffle_gap" not in results:
            return None
        low, high = results["shuffle_gap_intervals"]["all"]
        return _Figure(results["shuffle_gap"]["all"], (low, high), None)
    pooled = results.get("pairs", {}).get(GROUPS[name], {})
    if pooled.get("accuracy") is None:
        return None
    low, high = pooled["interval"]
    return _Figure(pooled["accuracy"], (low, high), pooled["n"])


def _column(name: str, figures: dict[int, _Figure], by_pretraining: bool) -> Column:
    """Mean, standard error and interval over pre-trainings; the interval of a single one is that over examples or pairs."""
    is_gap = name in ORDER["shuffle"]
    values = [figure.value for figure in figures.values()]
    column = replace(
        summary(values),
        seeds=[str(seed) if by_pretraining else seed for seed in figures],
        metric=NATS if is_gap else "accuracy",
        majority=None if is_gap else GUESS,
        examples=next((figure.n for figure in figures.values()), None),
    )
    if is_gap:  # more is not better
        column = replace(column, best=None)
    if len(values) == 1:
        return replace(column, interval=next(iter(figures.values())).interval)
    if column.mean is not None and column.sem is not None and len(values) < FEWEST:
        around = Difference(column.mean, column.sem, freedom=len(values) - 1, n=len(values))
        return replace(column, interval=(around.low, around.high))
    return column
