"""The six properties of position schemes (Wennberg & Henter 2021, Table 1), each tested on a small network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from relpos import style
from relpos.analysis.kinds.subject import Drawing
from relpos.analysis.properties import NAMES, properties


@dataclass(frozen=True)
class Properties:
    """A table of schemes; needs no trained network.

    Args:
        schemes: options of `position`; null: the nine of the paper's table.
    """

    schemes: Sequence[str] | None = None

    def of_schemes(self, small: Callable[[str], Any], parameters: Callable[[str], int], paper: Sequence[str]) -> Drawing:
        """Tests each scheme.

        Args:
            small: name → a small network in float64.
            parameters: name → how many parameters the scheme has in a network of the usual size.
            paper: the schemes of the paper's table.
        """
        names = list(self.schemes or paper)
        rows = []
        for name in names:
            has = properties(
                small(name), lambda model: list(model.encoder.position.parameters()), parameters(name), parameters("absolute")
            )
            rows.append({"position": name} | {key: "yes" if has[key] else "no" for key in NAMES})
        figure, (axes,) = style.grid(1, 1, 6.4, 0.3 * len(rows))
        for row, values in enumerate(rows):
            for column, key in enumerate(NAMES):
                yes = values[key] == "yes"
                axes.plot(column, row, "o", color=style.COLOURS[0] if yes else "0.75", fillstyle="full" if yes else "none")
        axes.set_xticks(range(len(NAMES)), NAMES, rotation=20, ha="right")
        axes.set_yticks(range(len(rows)), names)
        axes.invert_yaxis()
        axes.set_title("filled: the scheme has this property", fontsize=8)
        return Drawing("properties", rows, figure)
