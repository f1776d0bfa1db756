"""Figures of `relpos order`: the shuffle gap by window, and its course over the snapshots of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relpos import style

Gaps = Mapping[str, float]
Curve = dict[int, tuple[float | None, float | None]]
"""Per cent of the steps → shuffle gap over all words in nats, per cent of same-word pairs right; None where not measured."""


def draw_gaps(rows: Mapping[str, Gaps], intervals: Mapping[str, Mapping[str, Sequence[float]]]) -> Any:
    """A line for each network: {name: {"2": nats, …, "all": nats}}, with 95 % intervals as bands where they are given."""
    figure, axes = style.panel()
    for number, (name, gaps) in enumerate(rows.items()):
        look = style.look(number)
        axes.plot(range(len(gaps)), list(gaps.values()), marker=".", label=name, **look)
        if name in intervals:
            style.band(axes, range(len(gaps)), [intervals[name][window] for window in gaps], look["color"])
    # By place and not to scale: `all` has no number.
    windows = list(next(iter(rows.values())))
    axes.set_xticks(range(len(windows)), windows)
    axes.set(xlabel="words permuted within windows of", ylabel="shuffle gap, nats per token")
    style.legend(figure)
    return figure


def draw_curves(rows: Mapping[str, Curve]) -> Any:
    """Shuffle gap over all words, and same-word pairs, against the per cent of the steps."""
    figure, axes = style.panel()
    pairs = axes.twinx()
    for number, (name, curve) in enumerate(rows.items()):
        gaps = [(percent, gap) for percent, (gap, _) in curve.items() if gap is not None]
        right = [(percent, accuracy) for percent, (_, accuracy) in curve.items() if accuracy is not None]
        look = style.look(number)
        if gaps:
            axes.plot(*zip(*gaps, strict=True), marker=".", label=name, **look)
        if right:
            pairs.plot(*zip(*right, strict=True), marker=".", label=None if gaps else name, **look | {"linestyle": ":"})
    axes.set(xlabel="per cent of the steps", ylabel="shuffle gap, all words, nats per token (line)")
    pairs.set(ylabel="same-word pairs right, per cent (dots)", ylim=(0, 100))
    style.legend(figure)
    return figure
