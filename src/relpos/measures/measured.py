"""The results of networks for commands, tables and claims: kept ones, or measured now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from relpos.errors import RelposError, say
from relpos.measures.measure import Measure, Measured, NothingToMeasure, Results, measures
from relpos.measures.sample import Sample
from relpos.runs.execute import execute
from relpos.runs.networks import Network
from relpos.runs.run import Run, recorded
from relpos.runs.shelf import final
from relpos.stages.measure import MeasureStage, kept, results_of


def measured(sample: Sample, wanted: Sequence[Measure], named: bool = True) -> Results:
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
    results: Results = {}
    for measure in wanted:
        if measure.by_name and not named:
            continue
        try:
            # Measures have no key in common, so that one dictionary holds the results of all.
            results |= _measured(sample, measure)
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


def _measured(sample: Sample, measure: Measure) -> Results:
    # The text of a file, and what no run has trained, have no identity.
    if not measure.is_kept or sample.file or sample.network.run is None:
        return measure.measure(sample)
    return results_of(execute(_measurement(sample, measure))) or {}


def _measurement(sample: Sample, measure: Measure) -> Run:
    network = sample.network
    assert network.run is not None
    accelerator = "auto" if sample.gpu else "cpu"
    return MeasureStage.measurement(
        measure, recorded(network.run), network.share, sample.threads, accelerator
    )


def seen(
    sample: Sample, wanted: Sequence[Measure], course: bool = False, named: bool = True
) -> Measured:
    """A network's results for figures and claims; with `course` also those of its snapshots.

    Raises:
        RelposError: as `measured`.
    """
    results = measured(sample, wanted, named)
    along: dict[int, Results] = {}
    percents = shares(sample.network) if course else []
    for percent in percents:
        network = sample.network.at(percent)
        # A snapshot without its weights has the results that are kept, or none.
        if available := [measure for measure in wanted if is_here(network, measure)]:
            along[percent] = measured(replace(sample, network=network), available, named)
    scores: dict[str, float] = {}
    if not sample.network.is_snapshot:  # the record's numbers are those of the last step
        scores = final(sample.network.record)
    return Measured(sample.network.name, results, along, scores)


def is_here(network: Network, measure: Measure) -> bool:
    """Whether the results are kept or can be measured; weights may be elsewhere."""
    if network.weights.is_file():
        return True
    if network.run is None or not measure.is_kept:
        return False
    try:
        run = _measurement(Sample(network), measure)
    except NothingToMeasure:
        return False
    return results_of(run) is not None


def shares(network: Network) -> list[int]:
    """The per cents of the steps of which the snapshot's weights or results are here. A snapshot
    has no snapshots."""
    if network.run is None or network.is_snapshot:
        return []
    entries = [entry for measure in measures() for entry in kept(network.run, measure.name)]
    # The final network is no snapshot.
    return sorted({*network.snapshots(), *(entry.share for entry in entries)} - {network.share})
