"""Figures of a table as SVG that takes its colours from the page: text and lines in its text colour, points in its accents.

Small panels rather than one picture: each stays readable on a telephone, where the page sets them below one another.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relpos.tables.render.view import Cell

INK, FAINT, OURS, PAPER = "#010101", "#020202", "#030303", "#040404"
"""Stand-ins that matplotlib takes for colours; `_svg` puts the page's own in their place."""
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a7a00", "#56b4e9", "#e69f00")
"""Okabe and Ito's colours, which tell apart for the colour-blind and read on black and white; styles of line go on from there."""
STYLES = ("-", "--", ":", "-.")
WIDTH = 4.3
"""Inches: with letters of 10 points a panel of 340 pixels still reads."""


def intervals(title: str, names: Sequence[str], cells: Sequence[Cell]) -> str:
    """Rows from top to bottom: each run, the mean with its 95 % interval, the printed number, the majority class.

    Args:
        title: of the column; what it is for those who do not see it.
        names: of the rows.
        cells: one a row; a missing one is said to be.
    """

    def draw(axes: Any) -> None:
        for place, cell in enumerate(cells):
            _row(axes, place, cell)
        _chance(axes, cells)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(axis="x", color=FAINT, alpha=0.25)
        axes.tick_params(axis="y", length=0)

    return _svg(f"{title}: rows with their 95 % intervals", 0.55 + 0.24 * len(names), draw)


def _row(axes: Any, place: int, cell: Cell) -> None:
    if cell.mean is None:
        # At the left edge of the axes, whatever numbers the other rows have.
        axes.text(
            0.02, place, "failed" if cell.n_failed else "not run", transform=axes.get_yaxis_transform(), va="center", color=FAINT
        )
    else:
        if len(cell.values) > 1:
            axes.plot(cell.values, [place] * len(cell.values), "|", color=OURS, alpha=0.45, markersize=5)
        if cell.low is not None and cell.high is not None:
            axes.plot([cell.low, cell.high], [place, place], "-", color=OURS, linewidth=2.2, solid_capstyle="butt")
        axes.plot([cell.mean], [place], "o", color=OURS, markersize=5)
    if cell.printed is not None:
        axes.plot([cell.printed], [place], "D", markerfacecolor="none", markeredgecolor=PAPER, markeredgewidth=1.4, markersize=5.5)


def _chance(axes: Any, cells: Sequence[Cell]) -> None:
    """The score of the majority class, unless it lies so far off that the rows would be squeezed together."""
    known = [cell.majority for cell in cells if cell.majority is not None]
    low, high = axes.get_xlim()
    if known and low - (high - low) / 2 < (chance := max(set(known), key=known.count)) < high:
        axes.axvline(chance, color=FAINT, linestyle=":", linewidth=1.2)


def curves(title: str, points: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """Held-out loss against step, a line a row."""

    def draw(axes: Any) -> None:
        for place, (name, line) in enumerate(points.items()):
            style = {"color": LINES[place % len(LINES)], "linestyle": STYLES[place // len(LINES) % len(STYLES)]}
            axes.plot([point[0] for point in line], [point[1] for point in line], label=name, linewidth=1.6, **style)
        axes.set_xlabel("step")
        axes.grid(color=FAINT, alpha=0.25)
        columns = 2 if len(points) > 6 else 1
        axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=max(2, columns))

    return _svg(title, 2.6 + 0.11 * len(points), draw)


def _svg(label: str, height: float, draw: Callable[[Any], None]) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    looks: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": label, "font.size": 10, "text.parse_math": False}
    looks |= dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    with matplotlib.rc_context(looks):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.patch.set_visible(False)
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(text.getvalue(), label)


def _inline(svg: str, label: str) -> str:
    """The `<svg>` element alone, with the page's colours and font, and no names that two figures could share."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.S)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", svg))
    svg = re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", svg)
    for stand_in, colour in {INK: "currentColor", FAINT: "var(--faint)", OURS: "var(--ours)", PAPER: "var(--paper)"}.items():
        svg = svg.replace(stand_in, colour)
    svg = re.sub(r"(\d\.\d\d)\d+", r"\1", svg)  # a hundredth of a point is enough
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r"<svg [^>]*?viewBox=\"([^\"]+)\"[^>]*>", rf'<svg viewBox="\1" role="img" aria-label="{label}">', svg, count=1)
    return svg
