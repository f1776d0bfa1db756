"""How Toeplitz a network is: P, F̂_P, blocks of P, along training and against a score (Wennberg & Henter 2021, Fig. 2, App. B)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relpos import style
from relpos.analysis.kinds.similarity import products
from relpos.analysis.kinds.subject import Drawing, Subject
from relpos.analysis.profiles import profiles
from relpos.analysis.toeplitz import block_r2, toeplitz_r2
from relpos.model.encoder import encoder_of
from relpos.ranges import Count, Natural


@dataclass(frozen=True)
class Toeplitz:
    """R² of P and of the cosines, of F̂_P by layer and head, of the blocks of P; of P at each snapshot; and against a score.

    A random table has a positive R² from its diagonal alone: for comparison that of random tables of the same shape is given.

    Args:
        length: positions of F̂_P.
        block: positions of a block of P.
        score: a result in the training's record against which R² of P is drawn, where there are several networks.
        random: how many random tables; 0: none.
    """

    length: Count = 128
    block: Count = 128
    score: str = "heldout_loss"
    random: Natural = 20

    def __call__(self, subjects: Sequence[Subject]) -> Iterator[Drawing]:
        for subject in subjects:
            yield self._of(subject)
        if course := [row for subject in subjects for row in self._course(subject)]:
            yield Drawing("toeplitz-along-training", course, _course_figure(course))
        known = [subject for subject in subjects if self.score in subject.scores]
        if len(known) > 1:
            points = [
                {"network": s.name, self.score: s.scores[self.score], "r2": toeplitz_r2(products(s.encoder)[0])} for s in known
            ]
            yield Drawing(f"toeplitz-against-{self.score}", points, _against(points, self.score))

    def _of(self, subject: Subject) -> Drawing:
        encoder = subject.encoder
        p, cosine = products(encoder)
        width = min(self.block, len(p))  # a network may have fewer positions than a block
        whole, block = (self._chance(n, encoder.shape.embedding) for n in (len(p), width))
        rows: list[dict[str, Any]] = [_row("P", r2=toeplitz_r2(p)), _row("cosine", r2=toeplitz_r2(cosine))]
        rows.append(_row("P without its main diagonal", r2=toeplitz_r2(p, main=False)))
        if self.random:
            rows += [
                _row(f"P of {self.random} random tables, the highest", r2=whole),
                _row(f"{width} positions of {self.random} random tables, the highest", r2=block),
            ]
        blocks = block_r2(p, self.block)
        rows += [_row(f"P, positions {start + 1} to {end}", r2=value) for start, end, value in blocks]
        by_layer = [[toeplitz_r2(head) for head in profiles(encoder, layer, self.length)] for layer in range(encoder.shape.layers)]
        rows += [
            _row("F_P", layer + 1, head + 1, value) for layer, heads in enumerate(by_layer) for head, value in enumerate(heads)
        ]
        figure, (left, right) = style.grid(2, 2, 4.0, 3.0)
        for layer, heads in enumerate(by_layer, 1):
            left.plot([layer] * len(heads), heads, "o", color=style.COLOURS[0], markersize=3, alpha=0.7)
        left.plot(range(1, len(by_layer) + 1), [np.median(heads) for heads in by_layer], color=style.COLOURS[1], label="median")
        style.whole_numbers(left)
        left.set_xlabel("layer whose queries and keys are used")
        left.set_ylabel(f"R² of F̂_P, {min(self.length, len(p))} positions")
        left.legend(fontsize=7, frameon=False)
        right.bar([f"{start + 1}–{end}" for start, end, _ in blocks], [value for *_, value in blocks], color=style.COLOURS[2])
        if self.random:
            right.axhline(block, color="0.4", linestyle="--", linewidth=0.8)
            right.set_title(f"dashed: the highest of {self.random} random tables of {width} positions", fontsize=7)
        right.tick_params(axis="x", labelrotation=30)
        right.set_ylabel("R² of blocks of P")
        for axes in (left, right):
            axes.set_ylim(min(0, *axes.get_ylim()), 1.02)
        figure.suptitle(f"{subject.name}: R² of P {toeplitz_r2(p):.3f}, of cosines {toeplitz_r2(cosine):.3f}", fontsize=10)
        return Drawing(f"toeplitz-{subject.name}", rows, figure)

    def _chance(self, n: int, width: int) -> float:
        """The highest R² of P of random tables (n, width)."""
        tables = (np.random.default_rng(seed).standard_normal((n, width)) for seed in range(self.random))
        return max((toeplitz_r2(table @ table.T) for table in tables), default=0.0)

    def _course(self, subject: Subject) -> list[dict[str, Any]]:
        if not subject.snapshots:
            return []
        tables = {percent: products(encoder_of(load()))[0] for percent, load in sorted(subject.snapshots.items())}
        # The end is no snapshot unless one was asked for.
        tables.setdefault(100, products(subject.encoder)[0])
        return [
            {"network": subject.name, "per_cent": percent, "r2": toeplitz_r2(p), "r2_off_diagonal": toeplitz_r2(p, main=False)}
            for percent, p in tables.items()
        ]


def _row(what: str, layer: int | str = "", head: int | str = "", r2: float = 0.0) -> dict[str, Any]:
    return {"matrix": what, "layer": layer, "head": head, "r2": r2}


def _course_figure(rows: Sequence[dict[str, Any]]) -> Any:
    figure, (axes,) = style.grid(1, 1, 5.6, 3.2)
    for number, name in enumerate(dict.fromkeys(row["network"] for row in rows)):
        points = [(row["per_cent"], row["r2"]) for row in rows if row["network"] == name]
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name, **style.look(number))
    style.logarithmic(axes, {row["per_cent"] for row in rows})
    axes.set_xlabel("per cent of the steps")
    axes.set_ylabel("R² of P")
    axes.legend(fontsize=7, frameon=False)
    return figure


def _against(points: Sequence[dict[str, Any]], score: str) -> Any:
    figure, (axes,) = style.grid(1, 1, 5.6, 3.2)
    for point in points:
        axes.plot(point["r2"], point[score], "o", color=style.COLOURS[0], markersize=4)
        axes.annotate(point["network"], (point["r2"], point[score]), fontsize=5, xytext=(3, 3), textcoords="offset points")
    axes.set_xlabel("R² of P")
    axes.set_ylabel(score)
    return figure
