"""Claims about how close to Toeplitz the positions of trained models are (Wennberg & Henter 2021, Section 3, Appendix B).

R² is that of `relpos.analysis.toeplitz_r2`; 0.8 or more counts as close, less than 0.5 as not close. Of a position table only those
rows count that at least half of the training examples reach: later rows are hardly trained and close to random, and would lower R²
whatever the others have learned. A network that has learned no order says nothing of trained positions: its table is still random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import atanh, ceil, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relpos.claims.effort import longer, models, to_decide
from relpos.claims.finding import FAILS, HOLDS, NOT_RUN, UNDECIDED, Evidence, Finding, joined
from relpos.claims.requirements import SEVERAL, Requirements
from relpos.claims.scales import ORDER, Scale
from relpos.claims.weights import OfModels, encoder, snapshots
from relpos.tables.statistics import paired

if TYPE_CHECKING:
    from relpos.data.store import Store

CLOSE, NOT_CLOSE = 0.8, 0.5
RANDOM = 20
"""Random tables that a trained one is compared with: one more random table would exceed all of them once in 21 times."""
SAMPLE = 10_000
"""Training examples whose lengths are read."""
NARROWEST = 8
"""The fewest rows of a block of a table for which R² tells something."""
LEAST_GAP = 0.05
"""Nats of mean shuffle gap below which a row counts as having learned no order; the bound of the claims' twins about order."""
FOR_CORRELATION = 5
"""The fewest runs over which a correlation is computed."""


def products(table: np.ndarray) -> np.ndarray:
    """P = E E^T (n, n) of an embedding table (n, width)."""
    return table @ table.T


def table_of(folder: Path, share: int | None = None) -> np.ndarray:
    """The position table (n, embedding) of a model with absolute positions."""
    table: np.ndarray = encoder(folder, share).position.table.detach().double().numpy()
    return table


def r2(matrix: np.ndarray) -> float:
    """R² of the best Toeplitz matrix."""
    from relpos.analysis.toeplitz import toeplitz_r2

    return toeplitz_r2(matrix)


def reached(scale: Scale, folder: Path) -> int:
    """How many rows of the position table at least half of the training examples reach.

    In two-stage training each stage counts with its number of examples. If the store of the text is gone: all rows up to `length`.
    Of a published network: all, because its training is not known.
    """
    from relpos.data.store import Store
    from relpos.errors import RelposError
    from relpos.runs.run import read_record

    meaning = scale.meaning
    if not scale.can_go_on:
        return int(meaning["size"]["max_positions"])
    whole = int(min(meaning["length"], meaning["size"]["max_positions"]))
    try:
        store = Store(Path(read_record(folder)["inputs"]["store"]))
    except (KeyError, RelposError):
        return whole
    first = meaning.get("first")
    stages = [(1.0, whole)]
    if first:
        counts = first["share"] * first["batch"], (1 - first["share"]) * meaning["batch"]
        stages = [(counts[0], int(first["length"])), (counts[1], whole)]
    lengths, weights = zip(*(_lengths(store, meaning, length, weight) for weight, length in stages), strict=True)
    return _at_least_half(np.concatenate(lengths), np.concatenate(weights))


def _lengths(store: Store, meaning: dict[str, Any], length: int, weight: float) -> tuple[np.ndarray, np.ndarray]:
    """Lengths in tokens of training examples, evenly spaced among all, and the weight of each."""
    import torch

    examples = store.examples("train", meaning.get("packing", "pair"), length, meaning.get("pairs"))
    count = min(SAMPLE, len(examples))
    lengths = examples.lengths(torch.arange(count) * len(examples) // count).numpy()
    return lengths, np.full(count, weight / count)


def _at_least_half(lengths: np.ndarray, weights: np.ndarray) -> int:
    """The largest length that examples of at least half of the weight reach.

    >>> _at_least_half(np.array([10, 20, 30, 40]), np.ones(4))
    30
    """
    order = np.argsort(-lengths)
    counted = np.cumsum(weights[order]) / weights.sum()
    return int(lengths[order][np.searchsorted(counted, 0.5 - 1e-9)])


def _judged(values: Sequence[float]) -> str:
    middle = float(np.median(values))
    return HOLDS if middle >= CLOSE else FAILS if middle < NOT_CLOSE else UNDECIDED


@dataclass(frozen=True)
class OfTrainedPositions(OfModels):
    """Undecided where the row's shuffle gap was measured and shows that it has learned no order."""

    def _of(self, scale: Scale) -> Finding:
        finding = super()._of(scale)
        gaps = scale.scores.get(self.row, {}).get(ORDER)
        if finding.verdict == NOT_RUN or gaps is None or (gap := float(np.mean(list(gaps.values.values())))) >= LEAST_GAP:
            return finding
        why = f"{self.row} has learned no order (shuffle gap {gap:.3f} nats, below {LEAST_GAP}), so its positions are still random"
        return replace(finding, verdict=UNDECIDED, figures=joined([why, finding.figures]), p=None, takes=longer(scale))


@dataclass(frozen=True)
class CloseToToeplitz(OfTrainedPositions):
    """The median R² of P = E E^T over the models is close to 1, and above that of random tables of the same shape.

    The diagonal of P makes R² about d/(d + n) for a random (n, d) table, 0.86 for (128, 768). Holds: the median is `CLOSE` or more
    and above every one of 20 random tables. Fails: it is not above all of them, or below `NOT_CLOSE`.
    """

    @property
    def says(self) -> str:
        return f"R² of P = E·E^T of {self.row} is {CLOSE} or more (fails below {NOT_CLOSE}), and above {RANDOM} random tables"

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        rows = reached(scale, folders[0])
        tables = [table_of(folder)[:rows] for folder in folders]
        values = [r2(products(table)) for table in tables]
        chance = max(r2(products(np.random.default_rng(seed).standard_normal(tables[0].shape))) for seed in range(RANDOM))
        verdict = _judged(values) if float(np.median(values)) > chance else FAILS
        said = ", ".join(f"{value:.2f}" for value in values)
        figures = f"R² {said} of {len(values)} models, {_of_rows(scale, rows)}; the highest of {RANDOM} random tables {chance:.2f}"
        return Finding(verdict, figures, scale.label, takes=longer(scale) if verdict == UNDECIDED else "")


def _of_rows(scale: Scale, rows: int) -> str:
    return f"positions 1 to {rows}" + ", which half of the examples reach" * scale.can_go_on


@dataclass(frozen=True)
class ProfilesCloseToToeplitz(OfTrainedPositions):
    """What positions add to the scores of the heads of the first layer is close to Toeplitz: the median R² over heads and models.

    The bounds are those of `CloseToToeplitz`; there is no comparison with random tables.
    """

    @property
    def says(self) -> str:
        return f"R² of the position products of {self.row}'s heads is {CLOSE} or more (fails below {NOT_CLOSE})"

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        from relpos.analysis.patterns import pattern

        values: list[float] = []
        for folder in folders:
            shown = pattern(encoder(folder), length=scale.meaning["length"])
            values += [r2(head.numpy()) for head in shown.matrix] if shown else []
        if not values:
            return Finding(NOT_RUN, f"{self.row} has no position products", scale.label)
        verdict = _judged(values)
        spread = f"R² {min(values):.2f} to {max(values):.2f}, median {np.median(values):.2f}"
        figures = f"{spread}, over {len(values)} heads of the first layer"
        return Finding(verdict, figures, scale.label, takes=longer(scale) if verdict == UNDECIDED else "")


@dataclass(frozen=True)
class RisesWithTraining(OfModels):
    """R² of P rises along the snapshots of a run: its slope over log2 of the steps.

    Holds: the 95 % interval of the mean slope over runs lies above zero. Fails: it lies below. A single run leaves it undecided.
    """

    @property
    def says(self) -> str:
        return f"R² of P of {self.row} rises along the training"

    @property
    def requires(self) -> Requirements:
        return Requirements(SEVERAL)

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        slopes, said = [], []
        for folder in folders:
            shares = snapshots(folder)
            if len(shares) < 3:
                continue
            rows = reached(scale, folder)
            values = [r2(products(table_of(folder, share)[:rows])) for share in shares]
            slopes.append(float(np.polyfit([log2(share) for share in shares], values, 1)[0]))
            said.append(" ".join(f"{share} %: {value:.2f}" for share, value in zip(shares, values, strict=True)))
        if not slopes:
            return Finding(NOT_RUN, "needs three snapshots=[…] or more of a run", scale.label)
        figures = f"{'; '.join(said)}; slope {np.mean(slopes):+.3f} a doubling over {len(slopes)} runs, {_of_rows(scale, rows)}"
        test = paired(slopes, [0.0] * len(slopes))
        if test is None:
            return Finding(UNDECIDED, figures, scale.label, takes=models(scale, self.row, 2, "with three snapshots=[…] or more"))
        evidence = Evidence(test.p if test.value > 0 else 1.0, test.p if test.value < 0 else 1.0)
        takes = to_decide(scale, [test], of_row=self.row) if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, figures, scale.label, evidence.p, takes)


@dataclass(frozen=True)
class GoesWithScore(OfModels):
    """Among runs of equal steps, those with a higher R² of P have a lower held-out loss: Spearman's ρ over five runs or more."""

    @property
    def says(self) -> str:
        return f"R² of P and held-out loss of {self.row} are negatively correlated among runs of equal steps"

    @property
    def requires(self) -> Requirements:
        return Requirements(FOR_CORRELATION)

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        from scipy.stats import spearmanr

        from relpos.runs.run import read_record

        if len(folders) < FOR_CORRELATION:
            needs = f"needs {FOR_CORRELATION} pre-training seeds or more; there are {len(folders)}"
            return Finding(NOT_RUN, needs, scale.label)
        rows = reached(scale, folders[0])
        losses = [read_record(folder)["metrics"]["heldout_loss"] for folder in folders]
        test = spearmanr([r2(products(table_of(folder)[:rows])) for folder in folders], losses)
        rho = float(test.statistic)
        evidence = Evidence(float(test.pvalue) if rho < 0 else 1.0, float(test.pvalue) if rho > 0 else 1.0)
        figures = f"ρ {rho:+.2f}, p {test.pvalue:.2g}, {len(folders)} runs, {_of_rows(scale, rows)}"
        takes = models(scale, self.row, _runs_for(rho)) if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, figures, scale.label, evidence.p, takes)


def _runs_for(rho: float) -> int:
    """How many runs find a correlation as large as this with probability 0.8 (Fisher's z, two-sided, 0.05)."""
    return ceil(3 + (2.8 / atanh(min(max(abs(rho), 0.01), 0.99))) ** 2)


@dataclass(frozen=True)
class SeldomTrainedIsLess(OfTrainedPositions):
    """The last positions that half of the training examples reach have a higher R² than as many after them.

    Both blocks are equally wide, because R² falls with the width. Holds: the 95 % interval of the difference over models lies above
    zero. Fails: it lies below.
    """

    @property
    def says(self) -> str:
        return f"R² of P of {self.row}: higher among the last positions that half of the examples reach than among as many after"

    @property
    def requires(self) -> Requirements:
        return Requirements(SEVERAL)

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        trained = reached(scale, folders[0])
        width = min(trained, scale.meaning["size"]["max_positions"] - trained)
        if width < NARROWEST:
            return Finding(
                NOT_RUN, "needs runs on examples shorter than size.max_positions=: half of them reach all positions", scale.label
            )
        tables = [table_of(folder) for folder in folders]
        blocks = slice(trained - width, trained), slice(trained, trained + width)
        inside, outside = ([r2(products(table[block])) for table in tables] for block in blocks)
        said = [
            f"{np.mean(some):.2f} of positions {block.start + 1} to {block.stop}"
            for some, block in zip((inside, outside), blocks, strict=True)
        ]
        figures = f"R² {', '.join(said)}, {len(folders)} runs"
        test = paired(inside, outside)
        if test is None:
            return Finding(UNDECIDED, figures, scale.label, takes=models(scale, self.row, 2))
        evidence = Evidence(test.p if test.value > 0 else 1.0, test.p if test.value < 0 else 1.0)
        takes = to_decide(scale, [test], of_row=self.row) if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, figures, scale.label, evidence.p, takes)
