"""The figure of a table: held-out loss against step, a line a row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from relpos.files import replacing
from relpos.tables.row import Row

LINES = 24
"""Rows that a column of the legend has room for."""
DASHES = ("-", "--", ":", "-.")


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draws the losses that the rows have logged; does nothing if there are none, or if the picture shows them already.

    The picture carries a hash of its points, so that a table that is only shown again does not load matplotlib.
    """
    curves = {row.name: row.heldout_loss for row in rows if row.heldout_loss}
    stamp = hashlib.sha256(json.dumps(curves).encode()).hexdigest()
    if not curves or (path.exists() and stamp.encode() in path.read_bytes()):
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = -(-len(curves) // LINES)
    figure = Figure(figsize=(6.4 + 2.0 * columns, 4.0 if len(curves) < 12 else 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    # The legend reads as the lines end, from top to bottom; ten colours, then the same ten with another dash.
    for number, (name, points) in enumerate(sorted(curves.items(), key=lambda item: -item[1][-1][1])):
        steps, losses = zip(*points, strict=True)
        axes.plot(steps, losses, label=name, marker=".", linestyle=DASHES[number // 10 % len(DASHES)], linewidth=1)
    axes.set(xlabel="step", ylabel="held-out loss (nats per predicted token)")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", ncols=columns, fontsize=8, frameon=False, handlelength=3.5)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Comment": stamp})
