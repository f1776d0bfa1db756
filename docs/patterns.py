"""`make mechanisms`: docs/figures/patterns.png, what each option of `position` adds to the scores of
random tokens, with initial weights."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _preset import presets

from relpos import style
from relpos.analysis.patterns import Pattern, panels, pattern
from relpos.commands.analyze import initial_model
from relpos.config.compose import composed, resolved

FIGURE = Path(__file__).parent / "figures" / "patterns.png"
COLUMNS = 6


def patterns(length: int = 64, *overrides: str) -> dict[str, Pattern]:
    """The pattern of every option that adds something to the scores, by its name."""
    drawn = {}
    for preset in presets("position"):
        # Without the layers above the first, which alone is drawn.
        words = [f"position={preset.name}", "size.layers=1", *overrides]
        model, _ = initial_model(resolved(composed("analyze", ["patterns", *words])))
        if drawable := pattern(model.encoder, 0, length, trained=False):
            drawn[preset.name] = drawable
    return drawn


def drawn(by_name: Mapping[str, Pattern]) -> object:
    """One head of each scheme: the matrix, and below it the pattern by offset."""
    rows = -(-len(by_name) // COLUMNS)
    ratios = (2, 1) * rows
    figure, cells = style.canvas(2 * COLUMNS, 3.1 * rows, 2 * rows, COLUMNS, height_ratios=ratios)
    for axes in cells.flat:
        axes.axis("off")
    for number, (name, drawable) in enumerate(by_name.items()):
        row, column = divmod(number, COLUMNS)
        above, below = cells[2 * row][column], cells[2 * row + 1][column]
        for axes in (above, below):
            axes.axis("on")
            axes.tick_params(labelsize=6, length=2)
        panels(above, below, drawable, 0)
        above.set_title(name, fontsize=9)
    figure.supxlabel(
        "above: attended token j across, query i down; blue subtracts, red adds. Below: over the "
        "offset j − i",
        fontsize=9,
    )
    return figure


if __name__ == "__main__":
    style.save(drawn(patterns()), FIGURE, 70)
