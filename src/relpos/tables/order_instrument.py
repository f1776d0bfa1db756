"""Measures of how much the networks of a table know about order.

The figures are kept in the folders of the runs, see `relpos.measures.kept`, and shared with `relpos
order`.
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
        names: list[str] = []
        for measure in self.measures:
            columns = measure.columns if snapshots else measure.at_end
            names += [column.name for column in columns]
        return names


def instrument(
    experiment: Experiment, overrides: Iterable[str] = (), plan: Iterable[PlannedRow] = ()
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
    overrides = list(overrides)
    measured_stages = (
        ["order", *({"order_snapshots"} & experiment.stages.keys())] if experiment.order else []
    )
    for override in overrides:
        stage = override.partition(".")[0]
        if stage in ("order", "order_snapshots") and stage not in measured_stages:
            raise RelposError(
                f"table {experiment.name}: {override}: nothing is measured without "
                f"{stage}: in the file"
            )
    if not experiment.order:
        return None
    of_columns = _overrides("order", experiment, overrides)
    of_ends = _instrument(experiment, "order", of_columns)
    if "order_snapshots" not in experiment.stages:
        return of_ends
    for row in plan:
        # After the training it would be too late to get a snapshot.
        if row.pretrainings and not row.pretrainings[0].config["snapshots"]:
            raise RelposError(
                f"table {experiment.name}, row {row.name!r}: stages.order_snapshots: no snapshots "
                f"are kept; "
                "name some, as in stages.pretrain: [snapshots=[10,30]]"
            )
    of_snapshots = [*of_columns, *_overrides("order_snapshots", experiment, overrides)]
    return replace(of_ends, snapshots=_instrument(experiment, "order_snapshots", of_snapshots))


def _overrides(stage: str, experiment: Experiment, overrides: list[str]) -> list[str]:
    typed = [
        override.removeprefix(f"{stage}.")
        for override in overrides
        if override.startswith(f"{stage}.")
    ]
    return [*experiment.stages.get(stage, []), *typed]


def _instrument(experiment: Experiment, stage: str, overrides: list[str]) -> Instrument:
    for override in overrides:
        key = key_of(override).split(".")[0]
        if key not in KEYS:
            raise RelposError(
                f"table {experiment.name}: {stage}.{override}: not a dial of a "
                f"table.{nearest(key, KEYS)}"
            )
    # The command needs the name of a network; here the networks come from the plan.
    cfg = compose("order", ["network=''", *overrides])
    pairs: PairSource | AutoPairs = instantiate(cfg.pairs, "pairs")
    if "pairs" in experiment.order and not isinstance(pairs, AutoPairs):
        pairs.pairs()  # unreadable pairs are refused before anything is trained
    dials = {key: cfg[key] for key in Dials.__annotations__} | {"pairs": pairs}
    return Instrument(chosen(experiment.order, dials), cfg.threads)


@dataclass(frozen=True)
class ToMeasure:
    """A network and the instrument that measures it.

    The last network of a pre-training has two of them: one for the table's columns, one for the
    curve over snapshots.

    Args:
        run: the pre-training.
        percent: per cent of its steps.
        network: the network after these steps.
        instrument: its measures.
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
        # One by one, because the other measures count even if one refuses this network.
        for measure in self.instrument.measures:
            try:
                results |= measured(sample, [measure])
            except RelposError as error:
                say(f"relpos: {self.network.name} without {measure.name}: {error}")
        return results

    def is_measured(self) -> bool:
        """Whether no result is left to measure."""
        try:
            return all(is_measured(self.network, measure) for measure in self.instrument.measures)
        except RelposError:  # the pairs cannot be read; `results` reports it
            return False


Apply = Callable[[Callable[[ToMeasure], Results], Sequence[ToMeasure]], list[Results]]
"""Applies a function to networks, one after another or side by side."""


def to_measure(run: Run, instrument: Instrument) -> list[ToMeasure]:
    """The networks of a finished pre-training, as far as their files are here."""
    end = of_run(run.path)
    networks = [ToMeasure(run, END, end, instrument)]
    # The end is measured again with the snapshots' settings, so that the curve does not jump there.
    if instrument.snapshots is not None:
        for percent, network in {**snapshots(end), END: end}.items():
            networks.append(ToMeasure(run, percent, network, instrument.snapshots))
    return networks


def results_of(
    runs: Iterable[Run], instrument: Instrument, apply: Apply
) -> list[tuple[ToMeasure, Results]]:
    """All networks of the finished pre-trainings with their results; `apply` measures those that
    have none yet."""
    # Rows may share a pre-training.
    distinct = {run.path: run for run in runs if run.state == "finished"}.values()
    networks = [network for run in distinct for network in to_measure(run, instrument)]
    missing = [place for place, network in enumerate(networks) if not network.is_measured()]
    measured_now: dict[int, Results] = {}
    if missing:
        results = apply(ToMeasure.results, [networks[place] for place in missing])
        measured_now = dict(zip(missing, results, strict=True))
    pairs = []
    for place, network in enumerate(networks):
        pairs.append((network, measured_now[place] if place in measured_now else network.results()))
    return pairs
