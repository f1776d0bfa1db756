"""What a table measures of its networks: the stages `order` and `order_snapshots` of an experiment
file → runs.

They are the runs of `relpos order`, which finds what a table has measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

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
from relpos.tables.experiment import Experiment
from relpos.tables.plan import PlannedRow
from relpos.trust import instantiate

KEYS = (*Dials.__annotations__, "threads")
"""Keys of `relpos order` that a table may set."""


@dataclass(frozen=True)
class Measurement:
    """One measure of one network of a table.

    Args:
        run: measures it.
        pretraining: the run of the network.
        percent: of the pre-training's steps that the network had done.
        measure: what is measured.
        of_course: whether the value stands in the curve over snapshots, instead of the columns.
    """

    run: MeasureStage
    pretraining: Run
    percent: int
    measure: Measure
    of_course: bool = False


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

    def columns(self, snapshots: bool = False) -> list[str]:
        """The names of the columns that these measures give, at the end of the pre-training or for
        snapshots."""
        columns = [column for measure in self.measures for column in measure.columns]
        return [column.name for column in columns if snapshots or not column.snapshots_only]

    def measurements(self, pretrainings: Iterable[Run]) -> list[Measurement]:
        """The measurements of these pre-trainings, each of which counts once; a measure that has
        nothing to measure is named on stderr and left out."""
        planned: list[Measurement] = []
        for run in {run.path: run for run in pretrainings}.values():
            planned += self._of(run, END)
            # The end is measured again with the snapshots' settings, so that the curve does not
            # jump there.
            if self.snapshots is not None:
                for percent in (*_snapshots(run), END):
                    planned += self.snapshots._of(run, percent, of_course=True)
        return planned

    def _of(self, run: Run, percent: int, of_course: bool = False) -> Iterator[Measurement]:
        for measure in self.measures:
            try:
                own = MeasureStage.measurement(measure, run, percent, self.threads, "auto")
            except NothingToMeasure as error:
                say(f"relpos: {run.name} without {measure.name}: {error}")
            else:
                yield Measurement(own, run, percent, measure, of_course)


def _snapshots(run: Run) -> list[int]:
    """The snapshots of a pre-training: those that it will keep or, if it is finished, those of
    which something is here."""
    if run.state == "finished":
        return shares(of_run(run.path))
    return sorted(int(percent) for percent in run.config.snapshots)


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
    if not experiment.order:
        stages: tuple[str, ...] = ()
    elif "order_snapshots" in experiment.stages:
        stages = "order", "order_snapshots"
    else:
        stages = ("order",)
    dials: dict[str, list[str]] = {
        stage: list(experiment.stages.get(stage, ())) for stage in stages
    }
    for override in overrides:
        stage, _, typed = override.partition(".")
        if stage in dials:
            dials[stage].append(typed)
        elif stage in ("order", "order_snapshots"):
            raise RelposError(
                f"table {experiment.name}: {override}: nothing is measured without "
                f"{stage}: in the file"
            )
    if not stages:
        return None
    of_ends = _instrument(experiment, "order", dials["order"])
    if "order_snapshots" not in dials:
        return of_ends
    for row in plan:
        # After the training it would be too late to get a snapshot.
        if row.pretrainings and not row.pretrainings[0].config.snapshots:
            raise RelposError(
                f"table {experiment.name}, row {row.name!r}: stages.order_snapshots: no snapshots "
                f"are kept; "
                "name some, as in stages.pretrain: [snapshots=[10,30]]"
            )
    of_snapshots = [*dials["order"], *dials["order_snapshots"]]
    return replace(of_ends, snapshots=_instrument(experiment, "order_snapshots", of_snapshots))


def runs_of(plan: Iterable[PlannedRow], instrument: Instrument | None) -> list[MeasureStage]:
    """The runs that measure the pre-trainings of some rows; none without an instrument."""
    if instrument is None:
        return []
    pretrainings = [run for row in plan for run in row.pretrainings]
    return [measurement.run for measurement in instrument.measurements(pretrainings)]


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
