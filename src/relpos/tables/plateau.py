"""Which rows of a table are on the bag-of-words plateau, see `relpos.results.scale.is_on_plateau`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from relpos.results.contrast import Units
from relpos.results.scale import NONE, is_on_plateau, scheme
from relpos.runs.shelf import common
from relpos.tables.plan import PlannedRow
from relpos.tables.row import Row


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
