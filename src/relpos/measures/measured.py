"""The results of networks for commands, tables and claims: kept ones, or measured now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from relpos.errors import RelposError, say
from relpos.measures.measure import Measure, Measured, NothingToMeasure, measures
from relpos.measures.sample import Sample
from relpos.readers import Plain
from relpos.runs.execute import execute
from relpos.runs.networks import Network
from relpos.runs.run import recorded
from relpos.stages.measure import MeasureStage, kept


def measured(sample: Sample, wanted: Sequence[Measure], named: bool = True) -> Plain:
    """The results of a network, each as a run has measured it; the runs are executed where they are
    missing.

    Args:
        sample: the network, and what it is measured on.
        wanted: the measures.
        named: whether the user named them; else those are skipped that are measured by name alone
            and, with a line on stderr, those that lack text or pairs.

    Raises:
        RelposError: a named measure lacks text, pairs or a GPU; or nothing can be measured.
    """
    results: Plain = {}
    for measure in wanted:
        if measure.by_name and not named:
            continue
        try:
            run = _measurement(sample, measure)
            # Measures have no key in common, so that one dictionary holds the results of all.
            if run is None:
                results |= measure.measure(sample)
            else:
                execute(run)
                results |= run.results() or {}
        except NothingToMeasure as error:
            if named:  # the user expects a result
                raise
            say(f"relpos: without {measure.name}: {error}")
    if not results:
        raise RelposError(
            f"{sample.network.name}: there is nothing to measure it on: neither "
            f"held-out text nor pairs"
        )
    return results


def _measurement(sample: Sample, measure: Measure) -> MeasureStage | None:
    """Its run; None where the results have no identity: of the text of a file, or of a network that
    no run has trained."""
    network = sample.network
    if not measure.is_kept or sample.file or network.run is None:
        return None
    accelerator: Literal["auto", "cpu"] = "auto" if sample.gpu else "cpu"
    trained = recorded(network.run)
    return MeasureStage.measurement(measure, trained, network.share, sample.threads, accelerator)


def seen(
    sample: Sample,
    wanted: Sequence[Measure],
    course: bool = False,
    named: bool = True,
) -> Measured:
    """A network's results for figures and claims; with `course` also those of its snapshots.

    Raises:
        RelposError: as `measured`.
    """
    network = sample.network
    of_network = Measured(network.name, measured(sample, wanted, named))
    if course:
        along = {}
        for percent in shares(network):
            snapshot = network.at(percent)
            # A snapshot without its weights has the results that are kept, or none.
            if available := [measure for measure in wanted if is_here(snapshot, measure)]:
                along[percent] = measured(replace(sample, network=snapshot), available, named)
        of_network = replace(of_network, course=along)
    if network.is_snapshot:  # the record's numbers are those of the last step
        return of_network
    return replace(of_network, scores=network.record.figures)


def is_here(network: Network, measure: Measure) -> bool:
    """Whether the results are kept or can be measured; weights may be elsewhere."""
    if network.weights.is_file():
        return True
    try:
        run = _measurement(Sample(network), measure)
    except NothingToMeasure:
        return False
    return run is not None and run.results() is not None


def shares(network: Network) -> list[int]:
    """The per cents of the steps of which the snapshot's weights or results are here. A snapshot
    has no snapshots."""
    if network.run is None or network.is_snapshot:
        return []
    entries = [entry for measure in measures() for entry in kept(network.run, measure.name)]
    # The final network is no snapshot.
    return sorted({*network.snapshots(), *(entry.share for entry in entries)} - {network.share})
