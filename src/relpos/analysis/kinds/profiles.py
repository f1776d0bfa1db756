"""F̂_P by head: as maps, as curves over the offset with TISA fitted to them, and as positional responses (Wennberg & Henter 2021,
Figures 3 and 6 to 8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from relpos import style
from relpos.analysis.fit import Fit
from relpos.analysis.kinds.subject import Drawing, Subject
from relpos.analysis.profiles import Choices, fit_profiles, profiles
from relpos.analysis.toeplitz import diagonal_means, toeplitz_r2
from relpos.ranges import Count, Natural

COLUMNS = 4


@dataclass(frozen=True)
class _OfHeads:
    """F̂_P of the heads of one layer.

    Args:
        layer: from 1.
        length: positions.
        functions: basis functions of the TISA fitted to each head; 0: none.
        source, norm, types, bias, words: see `relpos.analysis.profiles.Choices`.
    """

    layer: Count = 1
    length: Count = 128
    functions: Natural = 5
    source: Literal["embeddings", "stream"] = "embeddings"
    norm: bool = True
    types: bool = True
    bias: bool = True
    words: bool = True

    def fitted(self, subject: Subject) -> tuple[np.ndarray, list[Fit] | None]:
        """F̂_P (heads, n, n), and TISA's functions fitted to it."""
        choices = Choices(self.source, self.norm, self.types, self.bias, self.words)
        ids = subject.some_texts(64, self.length).ids if self.source == "stream" else None
        heads = profiles(subject.encoder, self.layer - 1, self.length, choices, ids)
        return heads.numpy(), fit_profiles(heads, self.functions) if self.functions else None

    def title(self, subject: Subject) -> str:
        """The network and the choices, in a line."""
        chosen = [name for name in ("norm", "types", "bias", "words") if getattr(self, name)]
        return f"{subject.name}, layer {self.layer}: F̂_P from {self.source} with {', '.join(chosen) or 'nothing else'}"


@dataclass(frozen=True)
class Profiles(_OfHeads):
    """F̂_P of each head as a map, and its means by offset with the function fitted to them."""

    def __call__(self, subjects: Sequence[Subject]) -> Iterator[Drawing]:
        for subject in subjects:
            heads, fits = self.fitted(subject)
            n = len(heads[0])
            offsets = np.arange(1 - n, n)
            figure, axes = style.grid(2 * len(heads), 2 * COLUMNS, 1.9, 1.7)
            rows: list[dict[str, Any]] = []
            for number, head in enumerate(heads):
                left, right = axes[2 * number], axes[2 * number + 1]
                style.matrix(left, head)
                left.set_title(f"head {number + 1}: R² {toeplitz_r2(head):.2f}", fontsize=8)
                means = diagonal_means(head)
                right.plot(offsets, means, color=style.COLOURS[0], linewidth=1)
                values = None if fits is None else fits[number](offsets)
                if values is not None and fits is not None:
                    right.plot(offsets, values, "--", color=style.COLOURS[1], linewidth=1)
                    right.set_title(f"fit R² {fits[number].r2:.3f}", fontsize=8)
                rows += [
                    {
                        "head": number + 1,
                        "offset": int(offset),
                        "mean": float(means[place]),
                        "fit": "" if values is None else float(values[place]),
                    }
                    for place, offset in enumerate(offsets)
                ]
            fitted = f", {self.functions} basis functions (dashed)" if fits is not None else ""
            figure.suptitle(f"{self.title(subject)}; right: means by offset (line){fitted}", fontsize=9)
            yield Drawing(f"profiles-{subject.name}-layer{self.layer}", rows, figure)
            if fits is not None:
                yield Drawing(f"fits-{subject.name}-layer{self.layer}", _parameters(fits))


@dataclass(frozen=True)
class Responses(_OfHeads):
    """Positional responses: what a token at one of five places adds to its score at each offset, with a panel for each head."""

    def __call__(self, subjects: Sequence[Subject]) -> Iterator[Drawing]:
        for subject in subjects:
            heads, fits = self.fitted(subject)
            n = len(heads[0])
            places = sorted({round(share * (n - 1)) for share in (0.1, 0.3, 0.5, 0.7, 0.9)})
            figure, axes = style.grid(len(heads), COLUMNS, 2.6, 2.0)
            rows: list[dict[str, Any]] = []
            for number, head in enumerate(heads):
                for line, i in enumerate(places):
                    axes[number].plot(np.arange(n) - i, head[i], label=f"i = {i}", **style.look(line, 0.8))
                    rows += [
                        {"head": number + 1, "i": i, "offset": j - i, "response": float(value)} for j, value in enumerate(head[i])
                    ]
                if fits is not None:
                    offsets = np.arange(1 - n, n)
                    axes[number].plot(offsets, fits[number](offsets), color="0.3", linewidth=1.4, label="fit")
                axes[number].set_title(f"head {number + 1}", fontsize=8)
            axes[0].legend(fontsize=5, frameon=False)
            figure.supxlabel("offset j − i", fontsize=8)
            figure.suptitle(self.title(subject), fontsize=9)
            yield Drawing(f"responses-{subject.name}-layer{self.layer}", rows, figure)


def _parameters(fits: Sequence[Fit]) -> list[dict[str, Any]]:
    return [
        {
            "head": number,
            "function": s + 1,
            "amplitude": float(fit.amplitude[s]),
            "sharpness": float(fit.sharpness[s]),
            "centre": float(fit.centre[s]),
            "constant": fit.constant,
            "r2": fit.r2,
        }
        for number, fit in enumerate(fits, 1)
        for s in range(len(fit.amplitude))
    ]
