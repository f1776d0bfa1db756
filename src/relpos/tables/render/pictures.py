"""The figures of a table: losses by step, measures of its snapshots, and sweeps of a multiplier."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from relpos import style
from relpos.tables.render.cells import sweeps, title
from relpos.tables.table import NATS, Column, Row

LINES = 24
"""The most rows in a column of the legend."""
MOST_BANDS = 6
"""The most rows with drawn intervals; those of more rows would hide the lines, and side tables have
the standard errors."""
ACROSS = 6
"""The most panels beside each other; further ones go below them, so that the figure fits a page."""
NATS_PER_TOKEN = "held-out loss (nats per predicted token)"


def draw(folder: Path, rows: Sequence[Row]) -> None:
    """Draws each figure for which the rows have numbers."""
    draw_losses(folder / "curves.png", rows)
    draw_snapshots(folder / "snapshots.png", rows)
    draw_multipliers(folder / "position_lr.png", rows)


def draw_losses(path: Path, rows: Sequence[Row]) -> None:
    """Held-out loss against step, a line per row. Rows that differ only in their number of steps
    have the same colour and name."""
    lines: dict[tuple[str, ...], list[Sequence[tuple[int, float]]]] = {}
    for row in rows:
        # A network of no steps has no place on a logarithmic axis.
        if curve := [point for point in row.heldout_loss if point[0] > 0]:
            steps, same = "", []
            for typed in row.overrides:
                if typed.startswith("steps="):
                    steps = typed.removeprefix("steps=")
                else:
                    same.append(typed)
            name = row.name.removesuffix(steps).rstrip("_-")
            lines.setdefault((name, *same), []).append(curve)
    if not lines:
        return
    figure, axes = style.panel(7.8, max(4.2, 0.19 * len(lines)))
    by_loss = sorted(lines.items(), key=lambda item: -_last(item[1])[1])
    ends = []
    for number, ((name, *_), curves) in enumerate(by_loss):
        look = style.look(number)
        for points in curves:
            axes.plot(*zip(*points, strict=True), marker=".", **look)
        ends.append((name, *_last(curves), look["color"]))
    steps_of_all = [step for points in chain(*lines.values()) for step, _ in points]
    # Ticks that halve from the last step down to the first.
    ticks = [max(steps_of_all)]
    while ticks[-1] // 2 >= min(steps_of_all):
        ticks.append(ticks[-1] // 2)
    style.logarithmic(axes, ticks)
    axes.set(xlabel="step", ylabel=NATS_PER_TOKEN)
    style.name_ends(axes, ends)
    style.save(figure, path)


def _last(curves: Sequence[Sequence[tuple[int, float]]]) -> tuple[int, float]:
    return max((points[-1] for points in curves), key=lambda point: point[0])


def draw_snapshots(path: Path, rows: Sequence[Row]) -> None:
    """A panel per column against the per cent of the steps, a line per row, with 95 % intervals
    unless there are many rows."""
    panels: dict[str, dict[int, dict[int, Column]]] = {}
    for place, row in enumerate(rows):
        for percent, columns in sorted(row.snapshots.items()):
            for name, column in columns.items():
                if column.mean is not None:
                    panels.setdefault(name, {}).setdefault(place, {})[percent] = column
    if not panels:
        return
    columns_of_names = -(-len(rows) // LINES)
    across = min(len(panels), ACROSS)
    down = -(-len(panels) // ACROSS)
    # In inches, with room for the names of the rows.
    width = 3.6 * across + 1.6 * columns_of_names
    height = 3.6 if len(rows) < 12 else 5.6
    figure, grid = style.canvas(width, height * down, down, across)
    for empty in grid.flat[len(panels) :]:
        empty.axis("off")
    handles: dict[str, object] = {}  # a row may be missing in the first panel
    for axes, (name, lines) in zip(grid.flat, panels.items(), strict=False):
        for place, line in lines.items():
            look = style.look(place)
            means = [column.mean for column in line.values()]
            [handles[rows[place].name]] = axes.plot([*line], means, marker=".", **look)
            intervals = {at: column.interval for at, column in line.items() if column.interval}
            if intervals and len(rows) <= MOST_BANDS:
                style.band(axes, intervals, intervals.values(), look["color"])
        style.logarithmic(axes, chain(*lines.values()))
        metrics = {column.metric for line in lines.values() for column in line.values()}
        # On two lines, because titles of neighbouring panels would overlap on one.
        unit = "nats per token" if NATS in metrics else "per cent"
        axes.set(xlabel="per cent of the steps", ylabel=f"{title(name)}\n{unit}")
        axes.grid(alpha=0.3)
    style.legend(figure, list(handles.values()), list(handles), ncols=columns_of_names)
    style.save(figure, path)


def draw_multipliers(path: Path, rows: Sequence[Row]) -> None:
    """The last held-out loss against the multiplier, a line for rows that differ in it alone; a
    larger dot marks the lowest."""
    kinds = sweeps(rows)
    if not kinds:
        return
    figure, axes = style.panel()
    for number, (kind, losses) in enumerate(kinds.items()):
        look = style.look(number)
        axes.plot(*zip(*sorted(losses.items()), strict=True), marker=".", label=kind, **look)
        lowest = min(sorted(losses), key=losses.__getitem__)
        axes.plot([lowest], [losses[lowest]], "o", color=look["color"], markersize=7)
    style.logarithmic(axes, chain(*kinds.values()))
    axes.set(xlabel="multiplier of the learning rate", ylabel=f"last {NATS_PER_TOKEN}")
    style.legend(figure)
    style.save(figure, path)
