"""The figure of a table: held-out loss against step, a line a row."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from relpos.files import replacing


def draw(path: Path, rows: list[dict[str, Any]]) -> None:
    """Draws what the rows have logged; nothing where no row has, or where the picture shows it already.

    The picture carries a hash of its points, so that a table that is only shown again does not load matplotlib.
    """
    curves = {row["name"]: row["heldout_loss"] for row in rows if row["heldout_loss"]}
    stamp = hashlib.sha256(json.dumps(curves).encode()).hexdigest()
    if not curves or (path.exists() and stamp.encode() in path.read_bytes()):
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name, points in curves.items():
        axes.plot([step for step, _ in points], [loss for _, loss in points], label=name, marker=".")
    axes.set(xlabel="step", ylabel="held-out loss (nats per predicted token)")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Comment": stamp})
