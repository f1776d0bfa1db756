"""A network's results, measured once and kept in the folder of its run.

A pre-training's folder has `order/MEASURE-HASH.json` for each measure, network (the final one and
each snapshot) and choice of
dials: `share`, the per cent of its training steps that the network had done (100: the final one);
`meaning`, everything else that the results depend on; and `results`. `kept` reads these files.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from relpos.errors import RelposError, one_line, say
from relpos.files import digest, write_json
from relpos.measures.measure import Measure, Measured, NothingToMeasure, Results, chosen, measures
from relpos.measures.sample import Sample
from relpos.readers import fitted, read_json, sealed, unsealed
from relpos.runs.networks import Network
from relpos.runs.shelf import final

VERSION = 2
"""Raised when a change of code alters the results: kept ones are then measured again."""
FOLDER = "order"
SHOWN = "order.json"
"""What `relpos order` writes: the results of the networks that it was asked for."""


@dataclass(frozen=True)
class KeptResults:
    """Results that were measured before.

    Args:
        share: per cent of its training steps that the network had done; 100: the final one.
        meaning: everything else that they depend on: measure, version, examples or pairs.
        results: as `measured` returns them.
    """

    share: int
    meaning: dict[str, Any]
    results: Results


def kept(run: Path, measure: str) -> list[KeptResults]:
    """A measure's results in a pre-training's folder, sorted by share; a damaged file is left
    out."""
    entries = [_read(path) for path in sorted((run / FOLDER).glob(f"{measure}-*.json"))]
    # Results of another version were computed in another way; they may not stand beside these.
    return sorted(
        (entry for entry in entries if entry and entry.meaning.get("version") == VERSION),
        key=lambda entry: entry.share,
    )


def measured(sample: Sample, wanted: Sequence[Measure], named: bool = True) -> Results:
    """The results of a network, each read from its run's folder where it was measured before.

    Args:
        sample: the network, and what it is measured on.
        wanted: the measures.
        named: whether the user named them; else measures that do not suit the network, or lack text
            or pairs, are skipped, the latter with a line on stderr.

    Raises:
        RelposError: a named measure lacks text, pairs or a GPU; or nothing can be measured.
    """
    results: Results = {}
    for measure in wanted:
        if not named and not measure.suits(sample.network):
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
    meaning = _meaning(measure, sample.network)
    # Text of another file is no part of the meaning.
    file = None
    if measure.is_kept and sample.file is None:
        file = _file(sample.network, meaning)
    if file and file.is_file() and (before := _read(file)):
        return before.results
    # A damaged file is measured again and replaced.
    results = measure.measure(sample)
    if file:
        write_json(
            file, sealed({"meaning": meaning, "share": sample.network.share, "results": results})
        )
    return results


def seen(
    sample: Sample, wanted: Sequence[Measure], course: bool = False, named: bool = True
) -> Measured:
    """A network's results for figures and claims; with `course` also those of its snapshots.

    Raises:
        RelposError: as `measured`.
    """
    results = measured(sample, wanted, named)
    along: dict[int, Results] = {}
    at_snapshots: dict[int, Network] = {}
    if course:
        at_snapshots = snapshots(sample.network)
    for percent, network in at_snapshots.items():
        # A snapshot without its weights has the results that are kept, or none.
        if available := [measure for measure in wanted if is_here(network, measure)]:
            along[percent] = measured(replace(sample, network=network), available, named)
    scores: dict[str, float] = {}
    if not sample.network.is_snapshot:  # the record's numbers are those of the last step
        scores = final(sample.network.record)
    return Measured(sample.network.name, results, along, scores)


def is_here(network: Network, measure: Measure) -> bool:
    """Whether the results are kept or can be measured; weights may be elsewhere."""
    return network.weights.is_file() or is_measured(network, measure, nothing=False)


def is_measured(network: Network, measure: Measure, nothing: bool = True) -> bool:
    """Whether the results are in the run's folder; returns `nothing` where such a network cannot be
    measured."""
    try:
        file = _file(network, _meaning(measure, network))
    except NothingToMeasure:
        return nothing
    # A network without a run has no folder in which results could be kept.
    return file is not None and file.is_file()


def snapshots(network: Network) -> dict[int, Network]:
    """Per cent of the steps → the snapshot of the network, where its weights or results are here. A
    snapshot has no snapshots."""
    if network.run is None or network.is_snapshot:
        return {}
    # The final network keeps its results in the same folder, and is no snapshot.
    with_results = {
        entry.share for measure in measures() for entry in kept(network.run, measure.name)
    } - {network.share}
    return {share: network.at(share) for share in sorted({*network.snapshots(), *with_results})}


def _read(path: Path) -> KeptResults | None:
    """The results in a file; None, and a line on stderr, if it is damaged."""
    try:
        entry: KeptResults = fitted(unsealed(read_json(path, dict), str(path)), KeptResults)
        [measure] = chosen([str(entry.meaning.get("measure"))])
        for column in measure.columns:
            with suppress(KeyError):  # another version of this measure kept less
                # as whoever reads the results will ask
                figure = measure.figure(column.name, entry.results)
                least, most = column.bounds or (-inf, inf)
                if figure and (figure.value < least or figure.value > most):
                    raise RelposError(f"{path}: {column.title} {figure.value:g} is impossible")
    except (
        RelposError,
        IndexError,
        ArithmeticError,
        TypeError,
        ValueError,
        AttributeError,
    ) as error:
        why = one_line(error)
        if isinstance(error, RelposError):
            why = str(error).removeprefix(f"{path}: ")
        say(f"relpos: damaged results {path}: the next `relpos order` measures them anew ({why})")
        return None
    return entry


def _meaning(measure: Measure, network: Network) -> dict[str, Any]:
    return {"measure": measure.name, "version": VERSION} | measure.meaning(network)


def _file(network: Network, meaning: dict[str, Any]) -> Path | None:
    """Where the results are kept; None for a network without a run."""
    if network.run is None:
        return None
    # The name of the weights' file tells the networks of a run apart: `model`, or a snapshot's per
    # cent.
    return (
        network.run
        / FOLDER
        / f"{meaning['measure']}-{digest([meaning, network.weights.stem])}.json"
    )
