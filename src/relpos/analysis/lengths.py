"""Held-out loss against length, a line a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

Points = list[tuple[int, float]]


def draw_lengths(curves: Mapping[str, Points], ended: set[str], trained: set[int], path: str | Path) -> None:
    """A cross ends the line of a scheme that serves no longer sequences (`ended`); vertical lines: trained at."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    lengths = sorted({length for points in curves.values() for length, _ in points} | trained)
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.minorticks_off()
    for number, (name, points) in enumerate(curves.items()):
        style = "-" if number < 10 else "--"  # ten colours
        (line,) = axes.plot(*zip(*points, strict=True), style, marker=".", label=name, linewidth=1.2)
        if name in ended:
            axes.plot(*points[-1], "x", color=line.get_color(), markersize=9)
    for length in trained:
        axes.axvline(length, color="0.6", linestyle=(0, (4, 4)), linewidth=0.8, zorder=0)
    axes.set_xlabel("length in tokens (vertical line: trained at; cross: no longer sequences)")
    axes.set_ylabel("held-out loss, nats per token")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(path, format="png", dpi=110)
