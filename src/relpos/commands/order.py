"""`relpos order`: how much order does a network know? Writes `order.json` and its figures, with some networks side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

from relpos.errors import RelposError, say
from relpos.files import digest, write_json
from relpos.measures.kept import is_here, measured, snapshots
from relpos.measures.kinds.shuffle import Shuffle
from relpos.measures.measure import Dials, Measure, Measured, NothingToMeasure, Results, chosen, measures
from relpos.measures.sample import Sample, is_of_toy
from relpos.places import expanded
from relpos.ranges import Names, Threads
from relpos.runs.networks import Network, labels, networks_of, networks_of_table
from relpos.runs.run import runs_root
from relpos.trust import instantiate

FILE = "order.json"


def order(
    network: Names | None,
    table: str | None,
    measure: Names | None,
    curves: bool,
    store: str | None,
    accelerator: Literal["auto", "cpu", "gpu"],
    threads: Threads | None,
    **dials: Unpack[Dials],
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
    asked = chosen(measure, {**dials, "pairs": instantiate(dials["pairs"], "pairs")})
    networks = networks_of_table(table) if table else []
    networks += [each for name in folders for each in networks_of(name, expanded(store) if store else None)]
    for each in networks:
        each.refuse_classifier()
    rows, drawn = [], []
    for name, each in zip(labels(networks), networks, strict=True):
        sample, named = Sample(each, accelerator, threads), measure is not None
        results = _shown(sample, asked, named)
        course = {}
        for share, then in snapshots(each).items() if curves else ():
            # None: nothing is kept of this snapshot, and its weights are not here.
            if here := [one for one in asked if is_here(then, one)]:
                course[share] = _shown(replace(sample, network=then), here, named)
        row = {"name": name, "folder": each.name} | ({"row": each.row} if each.row else {}) | results
        rows.append(row | ({"snapshots": {str(share): known for share, known in course.items()}} if curves else {}))
        # Networks that a user names by folders have no row, and a line each; those of a row are drawn as their mean.
        drawn.append(Measured(each.row or name, results, course))
        said = [part for known in measures() for part in known.said(results)]
        say(f"{name}: {', '.join(said) or 'measured'}")
    folder = runs_root() / "order" / _folder_name(networks, asked, named=measure, curves=curves)
    # One network's results stand by themselves, as `relpos.order(run)` returns them.
    write_json(folder / FILE, rows[0] if len(rows) == 1 else {"rows": rows})
    for drawing in Shuffle().draw(drawn):
        drawing.save(folder, ["png"])
    return str(folder)


def _shown(sample: Sample, asked: list[Measure], named: bool) -> Results:
    """The results of a network without their details."""
    details = {key for measure in asked for key in measure.details}
    return {key: value for key, value in measured(sample, asked, named).items() if key not in details}


def _folder_name(networks: Sequence[Network], asked: Sequence[Measure], named: Names | None, curves: bool) -> str:
    content = [[str(network.weights.resolve()) for network in networks], [_meanings(network, asked) for network in networks]]
    name = networks[0].file_name if len(networks) == 1 else f"{len(networks)}-networks"
    return f"{name}-{digest([content, named, curves])}"


def _meanings(network: Network, asked: Sequence[Measure]) -> list[dict[str, Any] | None]:
    def meaning(measure: Measure) -> dict[str, Any] | None:
        try:
            return measure.meaning(is_of_toy(network.store))
        except NothingToMeasure:
            return None

    return [meaning(measure) for measure in asked]
