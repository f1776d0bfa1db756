"""Figures of `relpos order`: the shuffle gap against the window, and its course over the snapshots of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Gaps = Mapping[str, float]


def draw_gaps(rows: Mapping[str, Gaps], intervals: Mapping[str, Mapping[str, Sequence[float]]], path: str | Path) -> None:
    """A line a row: {name: {"2": nats, …, "all": nats}}, with 95 % intervals as bands."""
    figure, axes = _axes()
    for number, (name, gaps) in enumerate(rows.items()):
        places = range(len(gaps))
        (line,) = axes.plot(places, list(gaps.values()), "-" if number < 10 else "--", marker=".", label=name, linewidth=1.2)
        low, high = zip(*(intervals[name][window] for window in gaps), strict=True)
        axes.fill_between(places, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    windows = list(next(iter(rows.values())))
    axes.set_xticks(range(len(windows)), windows)
    axes.set_xlabel("words permuted within windows of")
    axes.set_ylabel("shuffle gap, nats per token")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(path, format="png", dpi=110)


def draw_curves(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Shuffle gap over all words, and same-word pairs, against the per cent of the steps; for rows with `snapshots`."""
    figure, axes = _axes()
    pairs = axes.twinx()
    for row in rows:
        points = {int(share): results for share, results in row.get("snapshots", {}).items()} | {100: row}
        gaps = [(share, then["shuffle_gap"]["all"]) for share, then in sorted(points.items()) if "shuffle_gap" in then]
        right = [(share, then["pairs"]["same_words"]["accuracy"]) for share, then in sorted(points.items()) if "pairs" in then]
        right = [(share, value) for share, value in right if value is not None]
        color = None
        if gaps:
            color = axes.plot(*zip(*gaps, strict=True), marker=".", label=row["name"], linewidth=1.2)[0].get_color()
        if right:
            pairs.plot(*zip(*right, strict=True), ":", color=color, marker=".", label=None if gaps else row["name"], linewidth=1.2)
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
