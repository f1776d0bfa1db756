"""A network's results, measured once and kept in the folder of its run.

A pre-training's folder has `order/MEASURE-HASH.json` for each measure, network (the final one and each snapshot) and choice of
dials: `share`, the per cent of its training steps that the network had done (100: the final one); `meaning`, everything else that
the results depend on; and `results`. `kept` reads these files.
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
    """A measure's results in a pre-training's folder, sorted by share; a damaged file is left out."""
    entries = [_read(path) for path in sorted((run / FOLDER).glob(f"{measure}-*.json"))]
    # Results of another version were computed in another way; they may not stand beside these.
    return sorted((entry for entry in entries if entry and entry.meaning.get("version") == VERSION), key=lambda entry: entry.share)


def measured(sample: Sample, asked: Sequence[Measure], named: bool = True) -> Results:
    """The results of a network, each read from its run's folder where it was measured before.

    Args:
        sample: the network, and what it is measured on.
        asked: the measures.
        named: whether the user named them; else those are taken that suit the network and for which there are text and pairs, and
            the others are named on stderr.

    Raises:
        RelposError: there is no text or there are no pairs for a measure that was asked for, or no GPU; or nothing can be measured.
    """
    results: Results = {}
    for measure in asked if named else [each for each in asked if each.suits(sample.network)]:
        try:
            # Measures have no key in common, so that one dictionary holds the results of all.
            results |= _measured(sample, measure)
        except NothingToMeasure as error:
            # What was named must be there; of all measures, those that suit a network are taken.
            if named:
                raise
            say(f"relpos: without {measure.name}: {error}")
    if not results:
        raise RelposError(f"{sample.network.name}: there is nothing to measure it on: neither held-out text nor pairs")
    return results


def _measured(sample: Sample, measure: Measure) -> Results:
    meaning = _meaning(measure, sample.network)
    # Text of another file is no part of the meaning.
    file = _file(sample.network, meaning) if measure.is_kept and sample.file is None else None
    if file and file.is_file() and (before := _read(file)):
        return before.results
    # Reached also where the kept file is damaged, which is then replaced.
    results = measure.measure(sample)
    if file:
        write_json(file, sealed({"meaning": meaning, "share": sample.network.share, "results": results}))
    return results


def seen(sample: Sample, asked: Sequence[Measure], course: bool = False, named: bool = True) -> Measured:
    """What a figure or a claim looks at: a network's results, and on demand those of its snapshots.

    Raises:
        RelposError: as `measured`.
    """
    results, along = measured(sample, asked, named), {}
    for percent, then in snapshots(sample.network).items() if course else ():
        # None: nothing is kept of this snapshot, and its weights are not here.
        if here := [measure for measure in asked if is_here(then, measure)]:
            along[percent] = measured(replace(sample, network=then), here, named)
    # The record's numbers are those of the last step.
    return Measured(sample.network.name, results, along, {} if sample.network.is_snapshot else final(sample.network.record))


def is_here(network: Network, measure: Measure) -> bool:
    """Whether the results are kept or can be measured; weights may be elsewhere."""
    return network.weights.is_file() or is_measured(network, measure, nothing=False)


def is_measured(network: Network, measure: Measure, nothing: bool = True) -> bool:
    """Whether the results are in the run's folder; `nothing` where there is nothing to measure such a network on."""
    try:
        file = _file(network, _meaning(measure, network))
    except NothingToMeasure:
        return nothing
    # A network without a run has no folder in which results could be kept.
    return file is not None and file.is_file()


def snapshots(network: Network) -> dict[int, Network]:
    """Per cent of the steps → the network as it was then, if its weights are here or results of it; a
    snapshot has none."""
    if network.run is None or network.is_snapshot:
        return {}
    # The final network keeps its results in the same folder, and is no snapshot.
    with_results = {entry.share for measure in measures() for entry in kept(network.run, measure.name)} - {network.share}
    return {share: network.at(share) for share in sorted({*network.snapshots(), *with_results})}


def _read(path: Path) -> KeptResults | None:
    """What a file keeps; None if it is damaged, which is said on stderr."""
    try:
        entry: KeptResults = fitted(unsealed(read_json(path, dict), str(path)), KeptResults)
        [measure] = chosen([str(entry.meaning.get("measure"))])
        for column in measure.columns:
            with suppress(KeyError):  # another version of this measure kept less
                figure = measure.figure(column.name, entry.results)  # as whoever reads the results will ask
                least, most = column.bounds or (-inf, inf)
                if figure and (figure.value < least or figure.value > most):
                    raise RelposError(f"{path}: {column.title} {figure.value:g} is impossible")
    except (RelposError, IndexError, ArithmeticError, TypeError, ValueError, AttributeError) as error:
        why = str(error).removeprefix(f"{path}: ") if isinstance(error, RelposError) else one_line(error)
        say(f"relpos: damaged results {path}: the next `relpos order` measures them anew ({why})")
        return None
    return entry


def _meaning(measure: Measure, network: Network) -> dict[str, Any]:
    return {"measure": measure.name, "version": VERSION} | measure.meaning(network)


def _file(network: Network, meaning: dict[str, Any]) -> Path | None:
    """Where the results are kept; None for a network without a run."""
    if network.run is None:
        return None
    # The name of the weights' file tells the networks of a run apart: `model`, or a snapshot's per cent.
    return network.run / FOLDER / f"{meaning['measure']}-{digest([meaning, network.weights.stem])}.json"
