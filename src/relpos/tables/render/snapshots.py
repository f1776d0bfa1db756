"""The figure of a table's snapshots: loss, shuffle gap and pairs against the share of the pre-training, a line a row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from relpos.files import replacing
from relpos.tables.render.side_tables import title
from relpos.tables.row import NATS, Column, Row

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

Point = tuple[int, Column]
MOST_BANDS = 6
"""Rows up to which their intervals are drawn; those of more rows would hide the lines, and side tables have the standard errors."""


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draws a panel a column, with the rows' 95 % intervals unless there are many rows. Does nothing if no snapshot was measured,
    or if the picture shows the same already."""
    panels = _panels(rows)
    points = {
        name: {row: [(share, column.mean, column.interval) for share, column in line] for row, line in lines.items()}
        for name, lines in panels.items()
    }
    has_bands = len(rows) <= MOST_BANDS
    stamp = hashlib.sha256(json.dumps([points, has_bands]).encode()).hexdigest()
    if not panels or (path.exists() and stamp.encode() in path.read_bytes()):
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6 * len(panels) + 1.6, 3.6 if len(rows) < 12 else 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    places = {row.name: number for number, row in enumerate(rows)}
    labelled: dict[str, Line2D] = {}
    for axes, (name, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for row, line in lines.items():
            shares, means = [share for share, _ in line], [column.mean for _, column in line]
            colour, dash = f"C{places[row] % 10}", ("-", "--", ":", "-.")[places[row] // 10 % 4]
            labelled.setdefault(row, axes.plot(shares, means, dash, marker=".", color=colour, linewidth=1.2)[0])
            known = [(share, *column.interval) for share, column in line if column.interval is not None]
            if known and has_bands:
                axes.fill_between(*zip(*known, strict=True), color=colour, alpha=0.12, linewidth=0)
        axes.set_xscale("log")
        ticks = sorted({share for line in lines.values() for share, _ in line})
        axes.set_xticks(ticks, [str(share) for share in ticks])
        axes.minorticks_off()
        is_nats = next(column.metric for line in lines.values() for _, column in line) == NATS
        axes.set(xlabel="per cent of the steps", ylabel=f"{title(name)}, {'nats per token' if is_nats else 'per cent right'}")
        axes.grid(alpha=0.3)
    figure.legend(list(labelled.values()), list(labelled), loc="outside right upper", fontsize=8, frameon=False)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130, metadata={"Comment": stamp})


def _panels(rows: Sequence[Row]) -> dict[str, dict[str, list[Point]]]:
    """Column → row → its points, in the order of the shares; what is not known is left out."""
    panels: dict[str, dict[str, list[Point]]] = {}
    for row in rows:
        for share, columns in sorted(row.snapshots.items()):
            for name, column in columns.items():
                if column.mean is not None:
                    panels.setdefault(name, {}).setdefault(row.name, []).append((share, column))
    return panels
