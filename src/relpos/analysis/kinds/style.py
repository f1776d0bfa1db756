"""How figures look: colours that the colour-blind can tell apart (Okabe & Ito 2008), lines that differ in style as well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", "-.", ":")


def grid(count: int, columns: int, width: float = 2.4, height: float = 2.0, **more: Any) -> tuple[Any, list[Any]]:
    """A figure and `count` axes in rows of `columns`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(max(4.8, width * columns), max(2.8, height * rows + 0.6)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, squeeze=False, **more).flat)
    for empty in axes[count:]:
        empty.axis("off")
    for panel in axes[:count]:
        panel.tick_params(labelsize=7)
    return figure, axes[:count]


def whole_numbers(axes: Any) -> None:
    """Ticks at whole numbers only on the horizontal axis, which counts offsets or layers."""
    axes.xaxis.get_major_locator().set_params(integer=True)


def lines() -> Iterator[dict[str, Any]]:
    """Colour and style of one line after another."""
    number = 0
    while True:
        yield {"color": COLOURS[number % len(COLOURS)], "linestyle": STYLES[number // len(COLOURS) % len(STYLES)], "linewidth": 1.2}
        number += 1


def matrix(axes: Any, values: np.ndarray, centred: bool = True) -> Any:
    """A matrix as a picture: red above zero and blue below, or from dark to light."""
    if not centred:
        return axes.imshow(values, cmap="cividis", interpolation="nearest")
    # On a scale that ends at the largest entries, mostly those of [CLS], all others would look white.
    most = float(np.quantile(np.abs(values), 0.995)) or 1.0
    return axes.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
