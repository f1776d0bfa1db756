"""The bag-of-words plateau: how well masked words are predicted by who knows which words a text has, and not their order.

`position=none` cannot leave it, unless its attention is causal, which is an order by itself: there the gap alone decides.
Another row has left it when two things are true: its held-out loss is below that of `none` beyond noise, and that loss rises by
more than `GAP` when words are shuffled. Two rows on the plateau differ by how they learn the words, which says nothing of
positions; and a row that has left it is ahead of one that has not by having learned any order at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from relpos.results.contrast import Units, difference
from relpos.runs.shelf import common
from relpos.tables.estimate import scheme
from relpos.tables.plan import PlannedRow
from relpos.tables.row import Row

NONE = "none"
"""The row without positions."""
GAP = 0.1
"""Nats of mean shuffle gap above which a row can have left the plateau."""
LEAD = 0.05
"""Nats by which its loss must be below that of `none` where too few seeds show what noise is."""
RULE = f"loss not below that of {NONE} beyond noise, or a shuffle gap of at most {GAP} nats"


def is_on_plateau(losses: Mapping[str, Units], gaps: Mapping[str, Iterable[float]], row: str) -> bool | None:
    """Whether a row is still on the plateau; None where its gap was not measured. Without a row `none` the gap alone decides.

    >>> losses = {"none": {0: 6.14, 1: 6.15}, "fixed": {0: 5.23, 1: 5.25}, "absolute": {0: 6.15, 1: 6.16}}
    >>> gaps = {"fixed": [1.4, 1.5], "absolute": [0.05, 0.06]}
    >>> is_on_plateau(losses, gaps, "fixed"), is_on_plateau(losses, gaps, "absolute"), is_on_plateau(losses, {}, "fixed")
    (False, True, None)
    >>> is_on_plateau({}, {"none": [2.1], "rope": [2.4]}, "none")  # causal attention
    False

    Args:
        losses: row → pre-training seed → held-out loss, of the rows of one scale.
        gaps: row → shuffle gaps of its pre-trainings.
        row: the row.
    """
    if not (of_row := list(gaps.get(row, ()))):
        return True if row == NONE else None
    if fmean(of_row) <= GAP:
        return True
    of_none = list(gaps.get(NONE, ()))
    if row == NONE or (of_none and fmean(of_none) > GAP) or not (losses.get(NONE) and losses.get(row)):
        return False
    tested = difference(losses, NONE, row)
    return tested.low <= 0 if tested else fmean(losses[NONE].values()) - fmean(losses[row].values()) <= LEAD


def with_plateau(rows: Sequence[Row], plan: Iterable[PlannedRow]) -> list[Row]:
    """The rows, each told whether it is on the plateau of its scale, if its shuffle gap is among the columns.

    Args:
        rows: with their columns about order.
        plan: has their runs.
    """
    without = scheme([f"position={NONE}"])
    scales: dict[str, dict[str, Units]] = {}
    names: dict[str, str] = {}  # row → its name within its scale
    places: dict[str, str] = {}
    for planned in plan:
        done = [run for run in planned.pretrainings if run.state == "finished"]
        if not done:
            continue
        meaning = done[0].meaning
        is_none = json.dumps({key: meaning[key] for key in ("position", "conv")}, sort_keys=True) == without
        names[planned.name] = NONE if is_none else planned.name
        places[planned.name] = json.dumps([common(meaning), done[0].record["inputs"]["store"]], sort_keys=True)
        losses = {int(run.config["seed"]): float(run.metrics["heldout_loss"]) for run in done}
        scales.setdefault(places[planned.name], {})[names[planned.name]] = losses

    # Those of the whole scale: whether `none` itself knows order, as it does under causal attention, decides for the others.
    gaps: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        if row.name in places and "shuffle_gap" in row.columns:
            gaps.setdefault(places[row.name], {})[names[row.name]] = row.columns["shuffle_gap"].values

    def told(row: Row) -> bool | None:
        # Not even `none` is known where no gap was measured: losses of answers, for instance, have no such plateau.
        if row.name not in places or "shuffle_gap" not in row.columns:
            return None
        return is_on_plateau(scales[places[row.name]], gaps[places[row.name]], names[row.name])

    return [replace(row, on_plateau=told(row)) for row in rows]
