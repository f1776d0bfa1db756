"""`relpos order`: how much order does a network know? Writes `order.json` and its figures, with some networks side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from relpos.errors import RelposError, say
from relpos.files import digest, write_json
from relpos.measures.kept import SHOWN, seen
from relpos.measures.kinds.shuffle import Shuffle
from relpos.measures.measure import Dials, Measure, Results, chosen, measures
from relpos.measures.sample import Sample
from relpos.places import expanded
from relpos.ranges import Names, Threads
from relpos.results.values import Value, by, figure_values
from relpos.runs.networks import labels, networks_of, networks_of_table
from relpos.runs.run import runs_root
from relpos.tables.render.pictures import draw_snapshots
from relpos.tables.rows import order_columns
from relpos.tables.table import Column, Row
from relpos.trust import instantiate


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
        RelposError: nothing is named, a folder holds no masked language model, a store is named for runs alone, or a pair of
            sentences cannot be read.
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
    if store and all(each.run for each in networks):
        raise RelposError(f"store={store}: {networks[0].name} is the network of a run, which has its own text")
    rows, drawn = [], []
    values: dict[str, list[Value]] = {}
    for name, each in zip(labels(networks), networks, strict=True):
        found = seen(Sample(each, True, threads), asked, curves, measure is not None)
        results, course = found.results, found.course
        row = {"name": name, "folder": each.name} | ({"row": each.row} if each.row else {}) | _shown(results, asked)
        rows.append(row | ({"snapshots": {str(share): _shown(known, asked) for share, known in course.items()}} if curves else {}))
        # Networks that a user names by folders have no row, and a line each; those of a row are drawn as their mean.
        drawn.append(replace(found, name=each.row or name))
        for share, known in {**course, each.share: results}.items() if course else ():
            at_time = Value(each.folder, "pretrain", "", 0.0, pretrain_seed=each.seed, percent=share)
            values.setdefault(drawn[-1].name, []).extend(figure_values(at_time, asked, known))
        said = [part for known in measures() for part in known.said(results)]
        say(f"{name}: {', '.join(said) or 'measured'}")
    name = networks[0].file_name if len(networks) == 1 else f"{len(networks)}-networks"
    # Other results go into another folder, and so do those of other weights.
    folder = runs_root() / "order" / f"{name}-{digest([[str(network.weights.resolve()) for network in networks], rows])}"
    # One network's results stand by themselves, as `relpos.order(run)` returns them.
    write_json(folder / SHOWN, rows[0] if len(rows) == 1 else {"rows": rows})
    for drawing in Shuffle().draw(drawn):
        drawing.save(folder, ["png"])
    draw_snapshots(folder / "snapshots.png", [Row(line, snapshots=_course(found)) for line, found in values.items()])
    return str(folder)


def _shown(results: Results, asked: Sequence[Measure]) -> Results:
    """The results of a network without their details."""
    details = {key for measure in asked for key in measure.details}
    return {key: value for key, value in results.items() if key not in details}


def _course(values: Sequence[Value]) -> dict[int, dict[str, Column]]:
    """Per cent of the steps → columns, as in a table; one value for each network."""
    names = {each.column: None for each in values}
    return {
        percent: order_columns(names, found, ["finished"] * len({each.run for each in found}))
        for percent, found in by(values, "percent").items()
    }
