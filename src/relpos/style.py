"""How figures look and how they are written. Colours are those that the colour-blind can tell apart
(Okabe & Ito 2008)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relpos.files import replacing

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from relpos.readers import Plain

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A7A00", "#56B4E9", "#E69F00")
"""Colours of Okabe and Ito that can be read on white and on black, with olive in place of their
yellow, which cannot on white."""
LINES = 12
"""Heads or channels that are drawn in one panel; the eye cannot tell more lines apart."""
DASHES = ("-", "--", "-.", ":")


def canvas(
    width: float,
    height: float,
    rows: int = 1,
    columns: int = 1,
    **options: Any,
) -> tuple[Figure, Any]:
    """A figure of width × height inches and its axes, an array (rows, columns)."""
    # Without pyplot, which would keep every figure in memory and choose a window system.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    own_settings()
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


@cache
def own_settings() -> None:
    """Undoes the settings of a `matplotlibrc` in the working directory, which may have come from
    anywhere."""
    import matplotlib

    if os.path.lexists("matplotlibrc"):
        matplotlib.rcdefaults()


def panel(width: float = 7.2, height: float = 4.2) -> tuple[Figure, Axes]:
    """A figure with one panel for lines."""
    figure, axes = canvas(width, height)
    axes[0, 0].grid(alpha=0.3)
    return figure, axes[0, 0]


def by_layer(
    layers: Sequence[Any],
    titles: Sequence[str],
    title: str,
) -> tuple[Figure, list[Axes]]:
    """A figure with a panel for each layer, and a line for each of its heads or channels over the
    offset; and its panels.

    Args:
        layers: of each a matrix (heads, offsets), the offset 0 in the middle; the first `LINES`
            lines are drawn.
        titles: of the panels.
        title: of the figure.
    """
    figure, axes = grid(len(layers), 4, 2.8, 2.1)
    for panel, heads, name in zip(axes, layers, titles, strict=True):
        for head, values in enumerate(heads[:LINES]):
            half = len(values) // 2
            panel.plot(range(-half, half + 1), values, **look(head, 0.9))
        panel.axvline(0, color="0.8", linewidth=0.5, zorder=0)
        panel.set_title(name, fontsize=8)
        whole_numbers(panel)
    figure.supxlabel("offset of the attended token", fontsize=8)
    figure.suptitle(title, fontsize=9)
    return figure, axes


def grid(
    count: int,
    columns: int,
    width: float,
    height: float,
) -> tuple[Figure, list[Any]]:
    """A figure and `count` small panels of width × height inches, in rows of `columns`."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure, axes = canvas(max(4.8, width * columns), max(2.8, height * rows + 0.6), rows, columns)
    for empty in axes.flat[count:]:
        empty.axis("off")
    for panel in axes.flat[:count]:
        panel.tick_params(labelsize=7)
    return figure, list(axes.flat[:count])


def look(number: int, width: float = 1.2) -> Plain:
    """Colour, dashes and width of a line, by its number: after the last colour they begin again
    with other dashes."""
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": dash, "linewidth": width}


def band(
    axes: Axes,
    places: Iterable[float],
    intervals: Iterable[Sequence[float]],
    colour: str,
) -> None:
    """Intervals (low, high) around a line of this colour."""
    low, high = zip(*intervals, strict=True)
    axes.fill_between(list(places), low, high, color=colour, alpha=0.15, linewidth=0)


def legend(figure: Figure, *handles: Any, **options: Any) -> None:
    """The names of the lines, to the right of the panels."""
    figure.legend(
        *handles,
        loc="outside right upper",
        fontsize=8,
        frameon=False,
        **options,
    )


def name_ends(axes: Axes, ends: Iterable[tuple[str, float, float, str]]) -> None:
    """Names at the right ends of lines, from top to bottom, as near to them as a line of text each
    beside the panel allows.

    Args:
        ends: the name of each line, where it ends, and its colour.
    """
    low, high = axes.get_ylim()
    ends = sorted(ends, key=lambda end: -end[2])
    line = 0.034  # of text, in parts of the panel's height
    places, above = [], float("inf")
    for _, _, y, _ in ends:
        places.append(above := min((y - low) / (high - low), above - line))
    below = -line
    # names that hang below the panel push up the names above them
    for at in reversed(range(len(ends))):
        places[at] = below = max(places[at], below + line)
    for (name, x, y, colour), place in zip(ends, places, strict=True):
        axes.annotate(
            name,
            (x, y),
            (1.03, place),
            textcoords=axes.transAxes,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.6},
            fontsize=8,
            va="center",
            color=colour,
            annotation_clip=False,
        )


def logarithmic(axes: Axes, places: Iterable[float], base: float = 10) -> None:
    """A horizontal axis on a logarithmic scale, with ticks at these places alone."""
    places = sorted(set(places))
    axes.set_xscale("log", base=base)
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.minorticks_off()


def whole_numbers(axes: Any) -> None:
    """Ticks at whole numbers only on the horizontal axis, which counts offsets or layers."""
    axes.xaxis.get_major_locator().set_params(integer=True)


def matrix(
    axes: Axes,
    values: npt.NDArray[np.floating],
    centred: bool = True,
    covered: float = 0.995,
) -> AxesImage:
    """A matrix as a picture: red above zero and blue below, or from dark to light.

    Args:
        values: an array (n, n); NaN is grey.
        centred: whether zero is in the middle of the colours.
        covered: fraction of the entries that the colours tell apart; the others have the outermost
            colour.
    """
    if not centred:
        return axes.imshow(values, cmap="cividis", interpolation="nearest")
    import numpy as np

    # On a scale that ends at the largest entries, mostly those of [CLS], all others would look
    # white.
    most = float(np.nanquantile(np.abs(values), covered)) or 1.0
    axes.set_facecolor("0.8")
    return axes.imshow(
        values,
        cmap="RdBu_r",
        vmin=-most,
        vmax=most,
        interpolation="nearest",
    )


def save(figure: Any, path: Path, dpi: int = 130) -> None:
    """Writes a figure, in the format that the suffix of the path names; the same figure gives the
    same file."""
    metadata: Plain = {}
    if path.suffix == ".pdf":  # whose time would give the same figure other bytes
        metadata = {"CreationDate": None}
    import matplotlib
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a $ in the name of a row is a dollar
    with replacing(path) as temporary, matplotlib.rc_context({"text.parse_math": False}):
        figure.savefig(temporary, format=path.suffix[1:], dpi=dpi, metadata=metadata)
