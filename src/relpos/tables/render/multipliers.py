"""The figure of a table that sweeps `recipe.position_lr`: last held-out loss against the multiplier, a line a kind of row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from relpos.files import replacing
from relpos.tables.render.side_tables import sweeps
from relpos.tables.row import Row


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draws the losses; a larger dot marks the lowest of a kind.

    Does nothing if no rows differ in the multiplier alone, or if the picture shows the same already.
    """
    kinds = sweeps(rows)
    stamp = hashlib.sha256(json.dumps([[kind, *sorted(losses.items())] for kind, losses in kinds.items()]).encode()).hexdigest()
    if not kinds or (path.exists() and stamp.encode() in path.read_bytes()):
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for kind, losses in kinds.items():
        multipliers = sorted(losses)
        (line,) = axes.plot(multipliers, [losses[multiplier] for multiplier in multipliers], marker=".", label=kind, linewidth=1.2)
        lowest = min(multipliers, key=lambda multiplier: losses[multiplier])
        axes.plot([lowest], [losses[lowest]], "o", color=line.get_color(), markersize=7)
    every = sorted({multiplier for losses in kinds.values() for multiplier in losses})
    axes.set_xscale("log")
    axes.set_xticks(every, [f"{multiplier:g}" for multiplier in every])
    axes.minorticks_off()
    axes.set(xlabel="recipe.position_lr", ylabel="last held-out loss (nats per predicted token)")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130, metadata={"Comment": stamp})
