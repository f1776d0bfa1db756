"""The figure of a table's rows at the end: loss and columns about order, a dot for each pre-training."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from relpos.files import replacing
from relpos.measures.measure import measured_columns
from relpos.tables.render.side_tables import title
from relpos.tables.row import LOSS, NATS, Column, Row

END = 100
"""Per cent of the steps at the end of a pre-training."""


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draws a panel a column, rows from top to bottom, the best of the first column first: each pre-training and their mean.

    Does nothing without such columns, or if the picture shows the same already.
    """
    panels = _panels(rows)
    values = {name: {row: column.values for row, column in columns.items()} for name, columns in panels.items()}
    stamp = hashlib.sha256(json.dumps(values).encode()).hexdigest()
    if not panels or (path.exists() and stamp.encode() in path.read_bytes()):
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    first = next(iter(panels.values()))
    names = sorted(first, key=lambda row: float(first[row].mean or 0.0), reverse=next(iter(panels)) != LOSS)
    figure = Figure(figsize=(1.6 + 2.4 * len(panels), 1.0 + 0.24 * len(names)), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (name, columns) in zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels.items(), strict=True):
        for place, row in enumerate(names):
            if row in columns:
                column = columns[row]
                axes.plot(column.values, [place] * len(column.values), "o", color="C0", alpha=0.6, markersize=4, linewidth=0)
                axes.plot([column.mean], [place], "|", color="black", markersize=11, markeredgewidth=1.6)
        axes.set_xlabel(f"{title(name)}, {'nats per token' if next(iter(columns.values())).metric == NATS else 'per cent right'}")
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(alpha=0.3)
        axes.tick_params(axis="y", length=0)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130, metadata={"Comment": stamp})


def _panels(rows: Sequence[Row]) -> dict[str, dict[str, Column]]:
    """Column → row → its values. The loss is that of the last snapshot; what is not known is left out."""
    panels: dict[str, dict[str, Column]] = {}
    for row in rows:
        loss = {name: column for name, column in row.snapshots.get(END, {}).items() if name == LOSS}
        order = {name: row.columns[name] for name in measured_columns() if name in row.columns}
        for name, column in (loss | order).items():
            if column.values:
                panels.setdefault(name, {})[row.name] = column
    return panels
