"""How it is measured how much the networks of a table know about order.

The figures are kept in the folders of the runs, see `relpos.measures.kept`, and shared with `relpos order`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from relpos.config.compose import compose
from relpos.config.conf import key_of
from relpos.data.pairs import AutoPairs, PairSource
from relpos.errors import RelposError, nearest, say
from relpos.measures.kept import is_measured, measured, snapshots
from relpos.measures.measure import Dials, Measure, Results, chosen
from relpos.measures.sample import Sample
from relpos.runs.networks import Network, of_run
from relpos.runs.run import Run
from relpos.runs.shelf import END
from relpos.tables.experiment import Experiment
from relpos.tables.plan import PlannedRow
from relpos.trust import instantiate

KEYS = (*Dials.__annotations__, "threads")
"""Keys of `relpos order` that a table may set."""


@dataclass(frozen=True)
class Instrument:
    """What is measured of each network, and how.

    Args:
        measures: those of `relpos order` that have columns.
        threads: CPU threads; None: all cores.
        snapshots: what is measured of the snapshots; None: nothing.
    """

    measures: list[Measure]
    threads: int | None = None
    snapshots: Instrument | None = None

    def columns(self, snapshots: bool = False) -> list[str]:
        """The names of the columns that these measures give, at the end of the pre-training or for snapshots."""
        return [column.name for measure in self.measures for column in (measure.columns if snapshots else measure.at_end)]


def instrument(experiment: Experiment, overrides: Iterable[str] = (), plan: Iterable[PlannedRow] = ()) -> Instrument | None:
    """What the stages `order` and `order_snapshots` of a table ask for, and overrides that begin with their names; None where there
    are no columns about order. The rows of the plan must keep snapshots if these are to be measured.

    Raises:
        RelposError: an override is wrong, named pairs cannot be read, or a row keeps no snapshots.
    """
    overrides = list(overrides)
    measured_stages = ["order", *({"order_snapshots"} & experiment.stages.keys())] if experiment.order else []
    for override in overrides:
        stage = override.partition(".")[0]
        if stage in ("order", "order_snapshots") and stage not in measured_stages:
            raise RelposError(f"table {experiment.name}: {override}: nothing is measured without {stage}: in the file")
    if not experiment.order:
        return None
    of_columns = _overrides("order", experiment, overrides)
    of_ends = _instrument(experiment, "order", of_columns)
    if "order_snapshots" not in experiment.stages:
        return of_ends
    for row in plan:
        # Refused now: after the training there is no way to get a snapshot.
        if row.pretrainings and not row.pretrainings[0].config["snapshots"]:
            raise RelposError(
                f"table {experiment.name}, row {row.name!r}: stages.order_snapshots: no snapshots are kept; "
                "name some, as in stages.pretrain: [snapshots=[10,30]]"
            )
    of_snapshots = [*of_columns, *_overrides("order_snapshots", experiment, overrides)]
    return replace(of_ends, snapshots=_instrument(experiment, "order_snapshots", of_snapshots))


def _overrides(stage: str, experiment: Experiment, overrides: list[str]) -> list[str]:
    typed = [override.removeprefix(f"{stage}.") for override in overrides if override.startswith(f"{stage}.")]
    return [*experiment.stages.get(stage, []), *typed]


def _instrument(experiment: Experiment, stage: str, overrides: list[str]) -> Instrument:
    for override in overrides:
        key = key_of(override).split(".")[0]
        if key not in KEYS:
            raise RelposError(f"table {experiment.name}: {stage}.{override}: not a dial of a table.{nearest(key, KEYS)}")
    # A network must be named for the command; here each comes from the plan.
    cfg = compose("order", ["network=''", *overrides])
    pairs: PairSource | AutoPairs = instantiate(cfg.pairs, "pairs")
    if "pairs" in experiment.order and not isinstance(pairs, AutoPairs):
        pairs.pairs()  # so that pairs that cannot be read are refused before anything is trained
    dials = {key: cfg[key] for key in Dials.__annotations__} | {"pairs": pairs}
    return Instrument(chosen(experiment.order, dials), cfg.threads)


@dataclass(frozen=True)
class ToMeasure:
    """A network and how it is measured. At the end of a pre-training there are two: for the table's columns, and as a snapshot.

    Args:
        run: the pre-training.
        percent: per cent of its steps.
        network: as it was then.
        instrument: what is measured of it.
    """

    run: Run
    percent: int
    network: Network
    instrument: Instrument

    def __str__(self) -> str:
        return f"order of {self.network.name}"

    def results(self) -> Results:
        """The results; a measure that fails is named on stderr and left out."""
        results: Results = {}
        sample = Sample(self.network, True, self.instrument.threads)
        # One by one: a measure that refuses this network must not take the others with it.
        for measure in self.instrument.measures:
            try:
                results |= measured(sample, [measure])
            except RelposError as error:
                say(f"relpos: {self.network.name} without {measure.name}: {error}")
        return results

    def is_measured(self) -> bool:
        """Whether no result is left to measure."""
        try:
            return all(is_measured(self.network, each) for each in self.instrument.measures)
        except RelposError:  # the pairs cannot be read, as `results` says
            return False


Each = Callable[[Callable[[ToMeasure], Results], Sequence[ToMeasure]], list[Results]]
"""Applies a function to each of some networks: one after another, or side by side."""


def to_measure(run: Run, instrument: Instrument) -> list[ToMeasure]:
    """What is measured of a finished pre-training: its networks that are here."""
    end = of_run(run.path)
    asked = [ToMeasure(run, END, end, instrument)]
    # The end is measured again with the snapshots' dials: a curve must not jump where the dials change.
    if instrument.snapshots is not None:
        course = {**snapshots(end), END: end}
        asked += [ToMeasure(run, percent, network, instrument.snapshots) for percent, network in course.items()]
    return asked


def results_of(runs: Iterable[Run], instrument: Instrument, each: Each) -> list[tuple[ToMeasure, Results]]:
    """The figures of all networks of the finished pre-trainings; `each` measures those that are not measured yet."""
    once = {run.path: run for run in runs if run.state == "finished"}.values()  # rows may share a pre-training
    networks = [asked for run in once for asked in to_measure(run, instrument)]
    # Asked once: the answer would change while others are measured.
    is_known = [asked.is_measured() for asked in networks]
    missing = [asked for asked, known in zip(networks, is_known, strict=True) if not known]
    new = iter(each(ToMeasure.results, missing) if missing else [])
    return [(asked, asked.results() if known else next(new)) for asked, known in zip(networks, is_known, strict=True)]
