"""What a table measures of its networks: the stages `order` and `order_snapshots` of an experiment
file → runs.

They are the runs of `relpos order`, which finds what a table has measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, product

from relpos.config.compose import compose, resolved
from relpos.config.conf import key_of
from relpos.data.pairs import PairSource
from relpos.errors import RelposError, nearest, say
from relpos.measures.measure import Dials, Measure, NothingToMeasure, chosen
from relpos.measures.measured import shares
from relpos.runs.networks import of_run
from relpos.runs.run import Run
from relpos.runs.shelf import END
from relpos.stages.measure import MeasureStage
from relpos.tables.experiment import MEASURING, Experiment
from relpos.tables.plan import PlannedRow
from relpos.trust import instantiate

KEYS = (*Dials.__annotations__, "threads")
"""Keys of `relpos order` that a table may set."""


@dataclass(frozen=True)
class Instrument:
    """Measures of a table's networks.

    Args:
        measures: measures of `relpos order` that have columns.
        threads: CPU threads; None: all cores.
        snapshots: the instrument for snapshots; None: they are not measured.
    """

    measures: list[Measure]
    threads: int | None = None
    snapshots: Instrument | None = None

    def at_end(self, pretraining: Run) -> Iterator[MeasureStage]:
        """The runs that measure the network of a pre-training for the table's columns."""
        return self._of(pretraining, [END])

    def along(self, pretraining: Run) -> Iterator[MeasureStage]:
        """The runs that measure a pre-training's snapshots, and its end with the same settings, so
        that the curve does not jump at the end."""
        if self.snapshots is None:
            return
        # Of a finished pre-training, only snapshots of which something is here.
        percents = sorted(pretraining.config.snapshots)
        if pretraining.state == "finished":
            percents = shares(of_run(pretraining.path))
        yield from self.snapshots._of(pretraining, [*percents, END])

    def _of(self, pretraining: Run, percents: Iterable[int]) -> Iterator[MeasureStage]:
        """A measure that has nothing to measure is named on stderr and left out."""
        for percent, measure in product(percents, self.measures):
            try:
                yield MeasureStage.measurement(measure, pretraining, percent, self.threads, "auto")
            except NothingToMeasure as error:
                say(f"relpos: {pretraining.name} without {measure.name}: {error}")


def instrument(
    experiment: Experiment,
    overrides: Iterable[str] = (),
    plan: Iterable[PlannedRow] = (),
) -> Instrument | None:
    """The instrument that the stages `order` and `order_snapshots` of a table describe; None
    without columns about order.

    Args:
        experiment: the table.
        overrides: those that begin with the name of one of the two stages change it.
        plan: the rows, which must keep snapshots if these are to be measured.

    Raises:
        RelposError: an override is wrong, named pairs cannot be read, or a row keeps no snapshots.
    """
    dials: dict[str, list[str]] = {}
    if experiment.order:
        of_stages = {"order": list[str]()} | experiment.stages
        dials = {stage: [*of_stages[stage]] for stage in MEASURING if stage in of_stages}
    for override in overrides:
        stage, _, typed = override.partition(".")
        if stage in dials:
            dials[stage].append(typed)
        elif stage in MEASURING:
            raise RelposError(
                f"table {experiment.name}: {override}: nothing is measured without "
                f"{stage}: in the file"
            )
    if not dials:
        return None
    of_ends = _instrument(experiment, "order", dials["order"])
    if "order_snapshots" not in dials:
        return of_ends
    for row in plan:
        # After the training it would be too late to get a snapshot.
        if row.pretrainings and not row.pretrainings[0].config.snapshots:
            raise RelposError(
                f"table {experiment.name}, row {row.name!r}: stages.order_snapshots: no snapshots "
                "are kept; name some, as in stages.pretrain: [snapshots=[10,30]]"
            )
    of_snapshots = [*dials["order"], *dials["order_snapshots"]]
    return replace(of_ends, snapshots=_instrument(experiment, "order_snapshots", of_snapshots))


def runs_of(plan: Iterable[PlannedRow], instrument: Instrument | None) -> list[MeasureStage]:
    """The runs that measure the pre-trainings of some rows; none without an instrument."""
    if instrument is None:
        return []
    pretrainings = {run.path: run for row in plan for run in row.pretrainings}.values()
    at_end = chain(*map(instrument.at_end, pretrainings))
    return [*at_end, *chain(*map(instrument.along, pretrainings))]


def _instrument(experiment: Experiment, stage: str, overrides: list[str]) -> Instrument:
    for override in overrides:
        key = key_of(override).split(".")[0]
        if key not in KEYS:
            raise RelposError(
                f"table {experiment.name}: {stage}.{override}: not a dial of a "
                f"table.{nearest(key, KEYS)}"
            )
    # The command needs the name of a network; here the networks come from the plan.
    config = resolved(compose("order", ["network=[]", *overrides]))
    pairs = instantiate(config["pairs"], "pairs")
    if "pairs" in experiment.order and isinstance(pairs, PairSource):
        pairs.pairs()  # unreadable pairs are refused before anything is trained
    dials = {key: config[key] for key in Dials.__annotations__}
    return Instrument(chosen(experiment.order, dials), config["threads"])
