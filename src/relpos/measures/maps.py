"""Maps that are drawn and not kept, because they are large, and made of the weights in a second: P
and the cosines of position embeddings, and F̂_P by head (Wennberg & Henter 2021, Figures 1 and 3 to
8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from relpos import style
from relpos.analysis.profiles import fit_profiles, profiles
from relpos.analysis.toeplitz import diagonal_means, products, toeplitz_r2
from relpos.measures.measure import Drawing, Measure
from relpos.measures.sample import Sample
from relpos.model.surgery import position_table
from relpos.ranges import Count
from relpos.readers import Plain

COLUMNS = 4
ROWS = 3
"""Rows of P and of the cosines that are drawn as curves."""
PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Places of tokens whose responses are drawn, as fractions of the length."""


@dataclass(frozen=True)
class Similarity(Measure):
    """Maps of P and of the cosines of all positions, some of their rows, the mean of each
    diagonal."""

    is_kept = False

    def measure(self, sample: Sample) -> Plain:
        """`P` and `cosine` (n, n)."""
        return dict(zip(("P", "cosine"), products(position_table(sample.encoder)), strict=True))

    def drawn(self, name: str, results: Plain) -> Iterator[Drawing]:
        figure, axes = style.grid(4, 2, 3.6, 3.0)
        n = len(results["P"])
        columns: dict[str, Iterable[float]] = {"offset": range(1 - n, n)}
        for (product, values), above, below in zip(
            results.items(), axes[:2], axes[2:], strict=True
        ):
            image = style.matrix(above, values, centred=product == "P")
            figure.colorbar(image, ax=above, shrink=0.8)
            above.set_title(f"{product}, R² {toeplitz_r2(values):.3f}", fontsize=9)
            for line, row in enumerate(np.linspace(0, n - 1, min(ROWS + 2, n)).astype(int)[1:-1]):
                below.plot(range(n), values[row], label=f"i = {row}", **style.look(line, 0.5))
            below.set_xlabel("position j", fontsize=8)
            below.legend(fontsize=6, frameon=False)
            # By offset: a Toeplitz matrix is this curve and nothing else.
            columns[product] = diagonal_means(values).tolist()
        figure.suptitle(f"{name}: position embeddings, products of rows", fontsize=10)
        by_offset = zip(*columns.values(), strict=True)
        rows = [dict(zip(columns, row, strict=True)) for row in by_offset]
        yield Drawing(f"position_similarity-{name}", rows, figure)


@dataclass(frozen=True)
class Profiles(Measure):
    """F̂_P of the heads of one layer: each as a map, and its means by offset with the function
    fitted to them.

    Args:
        layer: from 1.
        length: positions.
        functions: basis functions of the TISA fitted to each head.
    """

    layer: Count = 1
    length: Count = 128
    functions: Count = 5

    is_kept = False

    def measure(self, sample: Sample) -> Plain:
        """`heads`: F̂_P (heads, n, n), and `fits`: TISA's functions fitted to it."""
        heads = profiles(sample.encoder, self.layer - 1, self.length)
        return {"heads": heads.numpy(), "fits": fit_profiles(heads, self.functions)}

    def title(self, name: str) -> str:
        """The network and the choices, in a line."""
        return f"{name}, layer {self.layer}: F̂_P from embeddings"

    def drawn(self, name: str, results: Plain) -> Iterator[Drawing]:
        heads, fits = results["heads"], results["fits"]
        n = len(heads[0])
        offsets = np.arange(1 - n, n)
        figure, axes = style.grid(2 * len(heads), 2 * COLUMNS, 1.9, 1.7)
        rows, parameters = [], []
        panels = zip(axes[::2], axes[1::2], heads, fits, strict=True)
        for number, (left, right, head, fit) in enumerate(panels, 1):
            style.matrix(left, head)
            left.set_title(f"head {number}: R² {toeplitz_r2(head):.2f}", fontsize=8)
            means = diagonal_means(head)
            values = fit(offsets)
            right.plot(offsets, means, color=style.COLOURS[0], linewidth=1)
            right.plot(offsets, values, "--", color=style.COLOURS[1], linewidth=1)
            right.set_title(f"fit R² {fit.r2:.3f}", fontsize=8)
            rows += [
                {"head": number, "offset": offset, "mean": mean, "fit": value}
                for offset, mean, value in zip(offsets, means, values, strict=True)
            ]
            parameters += [
                {
                    "head": number,
                    "function": s + 1,
                    "amplitude": fit.amplitude[s],
                    "sharpness": fit.sharpness[s],
                    "centre": fit.centre[s],
                    "constant": fit.constant,
                    "r2": fit.r2,
                }
                for s in range(self.functions)
            ]
        fitted = f"right: means by offset (line), {self.functions} basis functions (dashed)"
        figure.suptitle(f"{self.title(name)}; {fitted}", fontsize=9)
        yield Drawing(f"profiles-{name}-layer{self.layer}", rows, figure)
        yield Drawing(f"fits-{name}-layer{self.layer}", parameters)


@dataclass(frozen=True)
class Responses(Profiles):
    """What a token at one of five places adds to its score at each offset: rows of F̂_P, with a
    panel for each head."""

    def drawn(self, name: str, results: Plain) -> Iterator[Drawing]:
        heads, fits = results["heads"], results["fits"]
        n = len(heads[0])
        offsets = np.arange(1 - n, n)
        places = sorted({round(place * (n - 1)) for place in PLACES})
        figure, axes = style.grid(len(heads), COLUMNS, 2.6, 2.0)
        rows = []
        for number, (panel, head, fit) in enumerate(zip(axes, heads, fits, strict=True), 1):
            for line, i in enumerate(places):
                panel.plot(range(-i, n - i), head[i], label=f"i = {i}", **style.look(line, 0.8))
                rows += [
                    {"head": number, "i": i, "offset": offset, "response": value}
                    for offset, value in enumerate(head[i], -i)
                ]
            panel.plot(offsets, fit(offsets), color="0.3", linewidth=1.4, label="fit")
            panel.set_title(f"head {number}", fontsize=8)
        axes[0].legend(fontsize=5, frameon=False)
        figure.supxlabel("offset j − i", fontsize=8)
        figure.suptitle(self.title(name), fontsize=9)
        yield Drawing(f"responses-{name}-layer{self.layer}", rows, figure)
