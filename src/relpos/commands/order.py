"""`relpos order`: measures how much order networks know; writes `order.json` and figures of them
side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from relpos.errors import RelposError, say
from relpos.files import write_json
from relpos.measures.kinds.shuffle import Shuffle
from relpos.measures.measure import Dials, Measure, chosen, measures
from relpos.measures.measured import seen
from relpos.measures.sample import Sample
from relpos.places import expanded
from relpos.ranges import Names, Threads
from relpos.readers import Plain, besides, digest
from relpos.runs.networks import labels, networks_of, networks_of_table
from relpos.runs.run import runs_root

SHOWN = "order.json"
"""What `relpos order` writes: the results of the networks that it was asked for."""


def order(
    network: Names | None,
    table: str | None,
    measure: Names | None,
    curves: bool,
    store: str | None,
    threads: Threads | None,
    **dials: Unpack[Dials],
) -> str:
    """Writes `order.json` and figures into a folder below `$RELPOS_RUNS/order`, which it returns.

    Raises:
        RelposError: no network is named, a folder holds no masked language model, a store is named
            for runs alone, or a pair of sentences cannot be read.
    """
    if not network and not table:
        raise RelposError("network=FOLDER or table=NAME is expected: which networks?")
    if measure == []:
        names = ", ".join(kind.name for kind in measures())
        raise RelposError(f"measure=[]: at least one is needed of {names}")
    selected = chosen(measure, dials)
    networks = networks_of_table(table) if table else []
    for name in network or ():
        networks += networks_of(name, expanded(store) if store else None)
    for source in networks:
        source.refuse_classifier()
    if store and all(source.run for source in networks):
        raise RelposError(
            f"store={store}: {networks[0].name} is the network of a run, which has its own text"
        )
    rows, drawn = [], []
    for name, source in zip(labels(networks), networks, strict=True):
        measured = seen(Sample(source, True, threads), selected, curves, measure is not None)
        results = measured.results
        row: Plain = {"name": name, "folder": source.name}
        if source.row:
            row["row"] = source.row
        row |= _shown(results, selected)
        if curves:
            course = measured.course.items()
            row["snapshots"] = {str(share): _shown(then, selected) for share, then in course}
        rows.append(row)
        # Networks of a row are drawn as their mean, networks of named folders each by itself.
        drawn.append(replace(measured, name=source.row or name))
        figures = [text for kind in measures() for text in kind.said(results)]
        say(f"{name}: {', '.join(figures) or 'measured'}")
    name = networks[0].file_name if len(networks) == 1 else f"{len(networks)}-networks"
    # Other results or other weights go into another folder.
    content = [[str(source.weights.resolve()) for source in networks], rows]
    folder = runs_root() / "order" / f"{name}-{digest(content)}"
    # The file of a single network has the form that `relpos.order(run)` returns.
    write_json(folder / SHOWN, rows[0] if len(rows) == 1 else {"rows": rows})
    for drawing in Shuffle().draw(drawn):
        drawing.save(folder, ["png"])
    return str(folder)


def _shown(results: Plain, selected: Sequence[Measure]) -> Plain:
    """The results of a network without their details."""
    return besides(results, [key for measure in selected for key in measure.details])
