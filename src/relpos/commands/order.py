"""`relpos order`: how much order does a network know? Writes `order.json` and its figures, with some networks side by side."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from relpos import style
from relpos.errors import RelposError, say
from relpos.files import write_json
from relpos.measures.dials import Dials, NothingToMeasure
from relpos.measures.kept import is_measured, measured, snapshots
from relpos.measures.measure import Measure, Results, chosen, measures
from relpos.measures.sample import Sample, is_of_toy
from relpos.places import expanded
from relpos.ranges import Count, Names, Threads
from relpos.runs.networks import Network, labels, networks_of, networks_of_table
from relpos.runs.run import runs_root
from relpos.runs.shelf import END
from relpos.trust import instantiate

if TYPE_CHECKING:
    from relpos.analysis.order_figure import Curve

FILE = "order.json"


def order(
    network: Names | None,
    table: str | None,
    pairs: dict[str, Any],
    measure: Names | None,
    examples: Count,
    form: Literal["within_word", "plain"],
    curves: bool,
    store: str | None,
    accelerator: Literal["auto", "cpu", "gpu"],
    threads: Threads | None,
) -> str:
    """Writes `order.json` and figures into a folder below `$RELPOS_RUNS/order`, which it returns.

    Raises:
        RelposError: nothing is named, a folder holds no masked language model, or a pair of sentences cannot be read.
    """
    folders = network or []
    if not folders and not table:
        raise RelposError("network=FOLDER or table=NAME is expected: which networks?")
    if measure == []:
        raise RelposError(f"measure=[]: at least one is needed of {', '.join(known.name for known in measures())}")
    # None is more than a list of all: what does not suit a network is then left out without an error.
    asked = None if measure is None else chosen(measure)
    networks = networks_of_table(table) if table else []
    networks += [each for name in folders for each in networks_of(name, expanded(store) if store else None)]
    for each in networks:
        each.refuse_classifier()
    dials = Dials(examples, form, instantiate(pairs, "pairs"))
    rows = []
    for name, each in zip(labels(networks), networks, strict=True):
        sample = Sample(each, dials, accelerator, threads)
        results: Results = {"name": name, "folder": each.name} | ({"row": each.row} if each.row else {})
        results |= _shown(sample, asked)
        if curves:
            results["snapshots"] = _course(sample, asked)
        rows.append(results)
        said = [part for measure in measures() for part in measure.said(results)]
        say(f"{name}: {', '.join(said) or 'measured'}")
    folder = runs_root() / "order" / _folder_name(networks, dials, asked, curves)
    # One network's results stand by themselves, as `relpos.order(run)` returns them.
    write_json(folder / FILE, rows[0] if len(rows) == 1 else {"rows": rows})
    _draw(rows, folder)
    return str(folder)


def _shown(sample: Sample, asked: list[Measure] | None) -> Results:
    """The results of a network without their details."""
    details = {key for measure in measures() for key in measure.details}
    results = measured(sample, asked)
    return {key: value for key, value in results.items() if key not in details}


def _course(sample: Sample, asked: list[Measure] | None) -> dict[str, Results]:
    """Per cent of the steps → the results of the network as it was then."""
    course = {}
    for share, snapshot in snapshots(sample.network).items():
        here = asked
        if not snapshot.weights.is_file():  # as after `relpos merge`: the results that were kept are all there is
            here = [measure for measure in asked or measures() if is_measured(snapshot, sample.dials, measure, nothing=False)]
        # An empty list: nothing is kept of this snapshot. None stands for all measures.
        if here != []:
            course[str(share)] = _shown(replace(sample, network=snapshot), here)
    return course


def _folder_name(networks: Sequence[Network], dials: Dials, asked: list[Measure] | None, curves: bool) -> str:
    of_measures = None if asked is None else [measure.name for measure in asked]
    # The pairs only where they are measured: another choice of them changes nothing else.
    pairs = [_pairs_of(network, dials) if "pairs" in (of_measures or ["pairs"]) else None for network in networks]
    of_dials = {"measures": of_measures, "examples": dials.examples, "form": dials.form}
    content = json.dumps([[str(network.weights.resolve()) for network in networks], pairs, of_dials, curves])
    name = networks[0].file_name if len(networks) == 1 else f"{len(networks)}-networks"
    return f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def _pairs_of(network: Network, dials: Dials) -> dict[str, Any] | None:
    try:
        return dials.pairs_for(is_of_toy(network.store)).identity()
    except NothingToMeasure:
        return None


def _draw(rows: Sequence[Results], folder: Path) -> None:
    """Draws the figures; a table's row is one line, the mean over its pre-trainings."""
    lines: dict[str, list[Results]] = {}
    for row in rows:
        # Networks that a user names by folders have no row, and a line each.
        lines.setdefault(str(row.get("row", row["name"])), []).append(row)
    measured_gaps = {name: seeds for name, seeds in lines.items() if all("shuffle_gap" in seed for seed in seeds)}
    if measured_gaps:
        from relpos.analysis.order_figure import draw_gaps

        gaps = {name: _mean([seed["shuffle_gap"] for seed in seeds]) for name, seeds in measured_gaps.items()}
        single = {name: seeds[0]["shuffle_gap_intervals"] for name, seeds in measured_gaps.items() if len(seeds) == 1}
        style.save(draw_gaps(gaps, single), folder / "shuffle_gap.png")
    if any(row.get("snapshots") for row in rows):
        from relpos.analysis.order_figure import draw_curves

        style.save(draw_curves({name: _curve(seeds) for name, seeds in lines.items()}), folder / "snapshots.png")


def _mean(gaps: Sequence[dict[str, float]]) -> dict[str, float]:
    return {window: sum(of_seed[window] for of_seed in gaps) / len(gaps) for window in gaps[0]}


def _curve(seeds: Sequence[Results]) -> Curve:
    """Share → (gap over all words, accuracy on same-word pairs): means over the pre-trainings that have it; None where none has."""
    # Means over those that have a share: another pre-training of the row may have kept other snapshots.
    networks = [{int(share): results for share, results in seed.get("snapshots", {}).items()} | {END: seed} for seed in seeds]
    curve: Curve = {}
    for share in sorted({share for of_seed in networks for share in of_seed}):
        points: list[Any] = [of_seed[share] for of_seed in networks if share in of_seed]
        gaps = [point["shuffle_gap"]["all"] for point in points if "shuffle_gap" in point]
        right = [point["pairs"]["same_words"]["accuracy"] for point in points if "pairs" in point]
        right = [accuracy for accuracy in right if accuracy is not None]
        curve[share] = (sum(gaps) / len(gaps) if gaps else None, sum(right) / len(right) if right else None)
    return curve
