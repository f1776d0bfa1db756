"""Figures of `relpos order`: the shuffle gap by window, and its course over the snapshots of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Gaps = Mapping[str, float]
Curve = dict[int, tuple[float | None, float | None]]
"""Per cent of the steps → shuffle gap over all words in nats, per cent of same-word pairs right; None where not measured."""


def draw_gaps(rows: Mapping[str, Gaps], intervals: Mapping[str, Mapping[str, Sequence[float]]], path: str | Path) -> None:
    """A line for each network: {name: {"2": nats, …, "all": nats}}, with the 95 % intervals, where there are some, as bands."""
    figure, axes = _axes()
    for number, (name, gaps) in enumerate(rows.items()):
        places = range(len(gaps))
        (line,) = axes.plot(places, list(gaps.values()), "-" if number < 10 else "--", marker=".", label=name, linewidth=1.2)
        if name in intervals:
            low, high = zip(*(intervals[name][window] for window in gaps), strict=True)
            axes.fill_between(places, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    windows = list(next(iter(rows.values())))
    axes.set_xticks(range(len(windows)), windows)
    axes.set_xlabel("words permuted within windows of")
    axes.set_ylabel("shuffle gap, nats per token")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(path, format="png", dpi=110)


def draw_curves(rows: Mapping[str, Curve], path: str | Path) -> None:
    """Shuffle gap over all words, and same-word pairs, against the per cent of the steps."""
    figure, axes = _axes()
    pairs = axes.twinx()
    for name, curve in rows.items():
        gaps = [(share, gap) for share, (gap, _) in curve.items() if gap is not None]
        right = [(share, accuracy) for share, (_, accuracy) in curve.items() if accuracy is not None]
        color = None
        if gaps:
            color = axes.plot(*zip(*gaps, strict=True), marker=".", label=name, linewidth=1.2)[0].get_color()
        if right:
            pairs.plot(*zip(*right, strict=True), ":", color=color, marker=".", label=None if gaps else name, linewidth=1.2)
    axes.set_xlabel("per cent of the steps")
    axes.set_ylabel("shuffle gap, all words, nats per token (line)")
    pairs.set_ylabel("same-word pairs right, per cent (dots)")
    pairs.set_ylim(0, 100)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(path, format="png", dpi=110)


def _axes() -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.grid(alpha=0.3)
    return figure, axes
