"""Maps that are drawn and not kept, because they are large, and made of the weights in a second: P
and the cosines of position embeddings, and F̂_P by head (Wennberg & Henter 2021, Figures 1 and 3 to
8)."""

from __future__ import annotations

from collections.abc import Iterator
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
"""Of P and of the cosines, which are drawn as curves."""
PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Of the tokens whose responses are drawn, as fractions of the length."""


@dataclass(frozen=True)
class Similarity(Measure):
    """Maps of P and of the cosines of all positions, some of their rows, the mean of each
    diagonal."""

    is_kept = False

    def measure(self, sample: Sample) -> Plain:
        """`P` and `cosine` (n, n)."""
        return dict(zip(("P", "cosine"), products(position_table(sample.encoder)), strict=True))

    def drawn(self, name: str, results: Plain) -> Iterator[Drawing]:
        figure, (*maps, left, right) = style.grid(4, 2, 3.6, 3.0)
        columns = {}
        for (product, values), above, below in zip(
            results.items(),
            maps,
            (left, right),
            strict=True,
        ):
            image = style.matrix(above, values, centred=product == "P")
            figure.colorbar(image, ax=above, shrink=0.8)
            above.set_title(f"{product}, R² {toeplitz_r2(values):.3f}", fontsize=9)
            n = len(values)
            for line, row in enumerate(np.linspace(0, n - 1, min(ROWS + 2, n)).astype(int)[1:-1]):
                below.plot(range(n), values[row], label=f"i = {row}", **style.look(line, 0.5))
            below.set_xlabel("position j", fontsize=8)
            below.legend(fontsize=6, frameon=False)
            # By offset: a Toeplitz matrix is this curve and nothing else.
            columns[product] = diagonal_means(values).tolist()
        figure.suptitle(f"{name}: position embeddings, products of rows", fontsize=10)
        offsets = zip(range(1 - n, n), *columns.values(), strict=True)
        rows = [dict(zip(("offset", *columns), row, strict=True)) for row in offsets]
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
        heads = results["heads"]
        fits = results["fits"]
        n = len(heads[0])
        offsets = np.arange(1 - n, n)
        figure, axes = style.grid(2 * len(heads), 2 * COLUMNS, 1.9, 1.7)
        rows = []
        for number, head in enumerate(heads):
            left = axes[2 * number]
            right = axes[2 * number + 1]
            style.matrix(left, head)
            left.set_title(f"head {number + 1}: R² {toeplitz_r2(head):.2f}", fontsize=8)
            means = diagonal_means(head)
            values = fits[number](offsets).tolist()
            right.plot(offsets, means, color=style.COLOURS[0], linewidth=1)
            right.plot(offsets, values, "--", color=style.COLOURS[1], linewidth=1)
            right.set_title(f"fit R² {fits[number].r2:.3f}", fontsize=8)
            rows += [
                {"head": number + 1, "offset": int(offset), "mean": float(mean), "fit": value}
                for offset, mean, value in zip(offsets, means, values, strict=True)
            ]
        fitted = f"right: means by offset (line), {self.functions} basis functions (dashed)"
        figure.suptitle(f"{self.title(name)}; {fitted}", fontsize=9)
        yield Drawing(f"profiles-{name}-layer{self.layer}", rows, figure)
        parameters = []
        for number, fit in enumerate(fits, 1):
            for s in range(self.functions):
                row: Plain = {"head": number, "function": s + 1}
                for key in ("amplitude", "sharpness", "centre"):
                    row[key] = float(getattr(fit, key)[s])
                parameters.append(row | {"constant": fit.constant, "r2": fit.r2})
        yield Drawing(f"fits-{name}-layer{self.layer}", parameters)


@dataclass(frozen=True)
class Responses(Profiles):
    """What a token at one of five places adds to its score at each offset: rows of F̂_P, with a
    panel for each head."""

    def drawn(self, name: str, results: Plain) -> Iterator[Drawing]:
        heads = results["heads"]
        fits = results["fits"]
        n = len(results["heads"][0])
        offsets = np.arange(1 - n, n)
        places = sorted({round(place * (n - 1)) for place in PLACES})
        figure, axes = style.grid(len(heads), COLUMNS, 2.6, 2.0)
        rows = []
        for number, head in enumerate(heads):
            for line, i in enumerate(places):
                axes[number].plot(
                    np.arange(n) - i,
                    head[i],
                    label=f"i = {i}",
                    **style.look(line, 0.8),
                )
                rows += [
                    {"head": number + 1, "i": i, "offset": j - i, "response": float(value)}
                    for j, value in enumerate(head[i])
                ]
            axes[number].plot(
                offsets,
                fits[number](offsets),
                color="0.3",
                linewidth=1.4,
                label="fit",
            )
            axes[number].set_title(f"head {number + 1}", fontsize=8)
        axes[0].legend(fontsize=5, frameon=False)
        figure.supxlabel("offset j − i", fontsize=8)
        figure.suptitle(self.title(name), fontsize=9)
        yield Drawing(f"responses-{name}-layer{self.layer}", rows, figure)
