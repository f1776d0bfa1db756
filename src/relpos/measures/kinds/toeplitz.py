"""How close to Toeplitz a network's positions are (Wennberg & Henter 2021, Figure 2, Section 3,
Appendix B)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from relpos import style
from relpos.analysis.profiles import profiles
from relpos.analysis.toeplitz import products, toeplitz_r2
from relpos.data.store import Store
from relpos.errors import RelposError
from relpos.measures.measure import Drawing, Figure, Measure, Measured, MeasuredColumn
from relpos.measures.sample import Sample
from relpos.model.surgery import position_table
from relpos.ranges import Count
from relpos.readers import Plain
from relpos.runs.networks import Network

LOSS = "heldout_loss"
SEEN = 10_000
"""Training examples whose lengths are read."""


@dataclass(frozen=True)
class Toeplitz(Measure):
    """R² of P = E·E^T and of the cosines, of blocks of P, and of F̂_P by layer and head; see
    `relpos.analysis.toeplitz_r2`.

    A random table has a positive R² from its diagonal alone: for comparison that of random tables
    of the same shape is given.

    Args:
        length: positions of F̂_P.
        block: positions of a block of P.
        random: how many random tables.
    """

    length: Count = 128
    block: Count = 128
    random: Count = 20

    columns = (MeasuredColumn("toeplitz_r2", "R² of P, per cent", "accuracy", bounds=(0.0, 100.0)),)
    note = (
        "R² of P: per cent of the variance of P = E·E^T, the products of the position embeddings, "
        "that depends on the distance alone; of the positions that at least half of the training's "
        "examples reach."
    )
    by_name, has_course = True, True

    def measure(self, sample: Sample) -> Plain:
        """`toeplitz`: R² of `P`, `P_off` (without its main diagonal) and `cosine`; of the `blocks`
        of P [first position, the one after the last, R²]; of `F_P` (layers, heads); `random`, the
        highest R² of random tables of the size of P, and of a block, `random_block`, of `width`
        positions. And of the positions that count, the first `rows`, see `reached`: `shape` of the
        table, `r2`, `r2_off`, `chance`, `chance_off` of random ones."""
        encoder = sample.encoder
        table = position_table(encoder)
        p, cosine = products(table)
        size, features = table.shape
        rows = min(reached(sample.network, size), size)
        width = min(self.block, size)
        chance = {n: _chance(self.random, n, features) for n in {size, width, rows}}
        blocks = []
        # R² falls with the width by itself: only blocks of one width can be compared. The last one
        # may be narrower.
        for start in range(0, size, self.block):
            end = min(start + self.block, size)
            blocks.append((start, end, toeplitz_r2(p[start:end, start:end])))
        by_layer = [
            [toeplitz_r2(head) for head in profiles(encoder, layer, self.length)]
            for layer in range(encoder.shape.layers)
        ]
        results = {
            "P": toeplitz_r2(p),
            "P_off": toeplitz_r2(p, main=False),
            "cosine": toeplitz_r2(cosine),
            "random": chance[size][0],
            "width": width,
            "random_block": chance[width][0],
            "blocks": blocks,
            "F_P": by_layer,
            "shape": [size, features],
            "rows": rows,
            "r2": toeplitz_r2(p[:rows, :rows]),
            "r2_off": toeplitz_r2(p[:rows, :rows], main=False),
            "chance": chance[rows][0],
            "chance_off": chance[rows][1],
        }
        return {"toeplitz": results}

    def figure(self, column: str, results: Plain) -> Figure | None:
        if "toeplitz" not in results:
            return None
        return Figure(100 * results["toeplitz"]["r2"])

    def draw(self, networks: Sequence[Measured]) -> Iterator[Drawing]:
        """R² by head and of blocks of each network; of P along the snapshots; and, of several
        networks, against their losses."""
        course: list[Plain] = []
        points: list[Plain] = []
        along, (of_course,) = style.grid(1, 1, 5.6, 3.2)
        against, (of_losses,) = style.grid(1, 1, 5.6, 3.2)
        for number, network in enumerate(networks):
            yield self._of(network.name, network.results["toeplitz"])
            if network.course:
                # The end is no snapshot unless one was asked for.
                whole = {100: network.results, **network.course}
                r2 = {percent: whole[percent]["toeplitz"] for percent in sorted(whole)}
                for percent, then in r2.items():
                    row = {"network": network.name, "per_cent": percent}
                    course.append(row | {"r2": then["P"], "r2_off_diagonal": then["P_off"]})
                values = [then["P"] for then in r2.values()]
                of_course.plot(
                    list(r2),
                    values,
                    label=network.name,
                    marker="o",
                    markersize=3,
                    **style.look(number),
                )
            if LOSS in network.scores:
                point = network.results["toeplitz"]["P"], network.scores[LOSS]
                points.append({"network": network.name, LOSS: point[1], "r2": point[0]})
                of_losses.plot(*point, "o", color=style.COLOURS[0], markersize=4)
                of_losses.annotate(
                    network.name,
                    point,
                    (3, 3),
                    textcoords="offset points",
                    fontsize=5,
                )
        if course:
            style.logarithmic(of_course, {row["per_cent"] for row in course})
            of_course.set(xlabel="per cent of the steps", ylabel="R² of P")
            of_course.legend(fontsize=7, frameon=False)
            yield Drawing("toeplitz-along-training", course, along)
        if len(points) > 1:
            of_losses.set(xlabel="R² of P", ylabel=LOSS)
            yield Drawing(f"toeplitz-against-{LOSS}", points, against)

    def _of(self, name: str, result: Plain) -> Drawing:
        """R² of a network's matrices as a table and two panels: F̂_P by head, and blocks of P."""
        by_layer = result["F_P"]
        width = f"{result['width']} positions"
        matrices = {
            "P": result["P"],
            "cosine": result["cosine"],
            "P without its main diagonal": result["P_off"],
            f"P of {self.random} random tables, the highest": result["random"],
            f"{width} of {self.random} random tables, the highest": result["random_block"],
        }
        figure, (left, right) = style.grid(2, 2, 4.0, 3.0)
        for start, end, value in result["blocks"]:
            matrices[f"P, positions {start + 1} to {end}"] = value
            right.bar(f"{start + 1}–{end}", value, color=style.COLOURS[2])
        rows: list[Plain] = [
            {"matrix": matrix, "layer": "", "head": "", "r2": r2} for matrix, r2 in matrices.items()
        ]
        for layer, heads in enumerate(by_layer, 1):
            for head, r2 in enumerate(heads, 1):
                rows.append({"matrix": "F_P", "layer": layer, "head": head, "r2": r2})
            left.plot([layer] * len(heads), heads, "o", color=style.COLOURS[0], markersize=3)
        medians = [np.median(heads) for heads in by_layer]
        left.plot(range(1, len(by_layer) + 1), medians, color=style.COLOURS[1], label="median")
        style.whole_numbers(left)
        of_heads = f"R² of F̂_P, {min(self.length, result['shape'][0])} positions"
        left.set(xlabel="layer whose queries and keys are used", ylabel=of_heads)
        left.legend(fontsize=7, frameon=False)
        right.axhline(result["random_block"], color="0.4", linestyle="--", linewidth=0.8)
        right.set_title(
            f"dashed: the highest of {self.random} random tables of {width}", fontsize=7
        )
        right.tick_params(axis="x", labelrotation=30)
        right.set_ylabel("R² of blocks of P")
        for axes in (left, right):
            axes.set_ylim(min(0, *axes.get_ylim()), 1.02)
        title = f"{name}: R² of P {result['P']:.3f}, of cosines {result['cosine']:.3f}"
        figure.suptitle(title, fontsize=10)
        return Drawing(f"toeplitz-{name}", rows, figure)


def reached(network: Network, whole: int) -> int:
    """How many rows of the position table count: those that at least half of the training examples
    reach. Later rows are hardly trained and close to random, and would lower R² whatever the others
    have learned.

    In two-stage training each stage counts with its number of examples. If the store of the text is
    gone, all rows up to `length` count; where the training is not known, all.
    """
    meaning = network.record.meaning
    if "length" not in meaning:
        return whole
    whole = int(min(meaning["length"], whole))
    try:
        store = Store(network.store or Path())
    except RelposError:
        return whole
    stages = [(1.0, whole)]
    if "first" in meaning:
        first = meaning["first"]
        stages = [
            (first["share"] * first["batch"], int(first["length"])),
            ((1 - first["share"]) * meaning["batch"], whole),
        ]
    lengths, weights = [], []
    for weight, length in stages:
        examples = store.examples("train", network.packing, length, meaning.get("pairs"))
        # Evenly spaced among all.
        count = min(SEEN, len(examples))
        lengths.append(examples.lengths(torch.arange(count) * len(examples) // count).numpy())
        weights.append(np.full(count, weight / count))
    return _at_least_half(np.concatenate(lengths), np.concatenate(weights))


def _at_least_half(lengths: np.ndarray, weights: np.ndarray) -> int:
    """The largest length that examples of at least half of the weight reach.

    >>> _at_least_half(np.array([10, 20, 30, 40]), np.ones(4))
    30
    """
    order = np.argsort(-lengths)
    counted = np.cumsum(weights[order]) / weights.sum()
    return int(lengths[order][np.searchsorted(counted, 0.5 - 1e-9)])


@cache
def _chance(tables: int, n: int, width: int) -> tuple[float, float]:
    """The highest R² of P of random tables (n, width), and the highest without the main
    diagonal."""
    # R² of P has no known null distribution.
    drawn = [np.random.default_rng(seed).standard_normal((n, width)) for seed in range(tables)]
    whole = max(toeplitz_r2(table @ table.T) for table in drawn)
    return whole, max(toeplitz_r2(table @ table.T, main=False) for table in drawn)
