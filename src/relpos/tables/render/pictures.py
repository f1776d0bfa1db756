"""The figures of a table: losses by step, measures of its snapshots, and sweeps of a multiplier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
        if row.heldout_loss:
            steps = next(
                (
                    typed.removeprefix("steps=")
                    for typed in row.overrides
                    if typed.startswith("steps=")
                ),
                "",
            )
            name = row.name.removesuffix(steps).rstrip("_-")
            same = [typed for typed in row.overrides if typed != f"steps={steps}"]
            lines.setdefault((name, *same), []).append(row.heldout_loss)
    if lines:
        style.save(_losses(lines), path)


def draw_snapshots(path: Path, rows: Sequence[Row]) -> None:
    """A panel per column against the per cent of the steps, a line per row, with 95 % intervals
    unless there are many rows."""
    panels: dict[str, dict[str, dict[int, Column]]] = {}
    for row in rows:
        for percent, columns in sorted(row.snapshots.items()):
            for name, column in columns.items():
                if column.mean is not None:
                    panels.setdefault(name, {}).setdefault(row.name, {})[percent] = column
    if panels:
        style.save(_snapshots(panels, [row.name for row in rows], len(rows) <= MOST_BANDS), path)


def draw_multipliers(path: Path, rows: Sequence[Row]) -> None:
    """The last held-out loss against the multiplier, a line for rows that differ in it alone; a
    larger dot marks the lowest."""
    kinds = sweeps(rows)
    if kinds:
        style.save(_multipliers(kinds), path)


def _losses(lines: Mapping[tuple[str, ...], Sequence[Sequence[tuple[int, float]]]]) -> Any:
    figure, axes = style.panel(7.8, max(4.2, 0.19 * len(lines)))
    ends = []
    for number, ((name, *_), curves) in enumerate(
        sorted(lines.items(), key=lambda item: -_last(item[1])[1])
    ):
        look = style.look(number)
        for points in curves:
            axes.plot(*zip(*points, strict=True), marker=".", **look)
        ends.append((name, *_last(curves), look["color"]))
    steps = [step for curves in lines.values() for points in curves for step, _ in points]
    style.logarithmic(axes, _doublings(min(steps), max(steps)))
    axes.set(xlabel="step", ylabel=NATS_PER_TOKEN)
    style.name_ends(axes, ends)
    return figure


def _last(curves: Sequence[Sequence[tuple[int, float]]]) -> tuple[int, float]:
    return max((points[-1] for points in curves), key=lambda point: point[0])


def _doublings(first: int, last: int) -> list[int]:
    """Ticks that halve from the last step down to the first."""
    ticks = [last]
    while ticks[-1] // 2 >= max(first, 1):
        ticks.append(ticks[-1] // 2)
    return ticks


def _snapshots(
    panels: Mapping[str, Mapping[str, Mapping[int, Column]]], rows: Sequence[str], has_bands: bool
) -> Any:
    columns_of_names = -(-len(rows) // LINES)
    across, down = min(len(panels), ACROSS), -(-len(panels) // ACROSS)
    # In inches, with room for the names of the rows.
    figure, grid = style.canvas(
        3.6 * across + 1.6 * columns_of_names, (3.6 if len(rows) < 12 else 5.6) * down, down, across
    )
    for empty in grid.flat[len(panels) :]:
        empty.axis("off")
    handles: dict[str, Any] = {}  # a row may be missing in the first panel
    for axes, (name, lines) in zip(grid.flat, panels.items(), strict=False):
        for row, line in lines.items():
            look = style.look(rows.index(row))
            handles[row] = axes.plot(
                list(line), [column.mean for column in line.values()], marker=".", **look
            )[0]
            intervals = {
                percent: column.interval
                for percent, column in line.items()
                if column.interval is not None
            }
            if intervals and has_bands:
                style.band(axes, intervals, intervals.values(), look["color"])
        style.logarithmic(axes, [percent for line in lines.values() for percent in line])
        first = next(iter(next(iter(lines.values())).values()))
        # On two lines, because titles of neighbouring panels would overlap on one.
        unit = "nats per token" if first.metric == NATS else "per cent"
        axes.set(xlabel="per cent of the steps", ylabel=f"{title(name)}\n{unit}")
        axes.grid(alpha=0.3)
    style.legend(figure, list(handles.values()), list(handles), ncols=columns_of_names)
    return figure


def _multipliers(kinds: Mapping[str, Mapping[float, float]]) -> Any:
    figure, axes = style.panel()
    for number, (kind, losses) in enumerate(kinds.items()):
        look = style.look(number)
        axes.plot(*zip(*sorted(losses.items()), strict=True), marker=".", label=kind, **look)
        lowest = min(sorted(losses), key=losses.__getitem__)
        axes.plot([lowest], [losses[lowest]], "o", color=look["color"], markersize=7)
    style.logarithmic(axes, [multiplier for losses in kinds.values() for multiplier in losses])
    axes.set(xlabel="multiplier of the learning rate", ylabel=f"last {NATS_PER_TOKEN}")
    style.legend(figure)
    return figure
