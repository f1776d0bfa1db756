"""Claims about how close to Toeplitz the positions of trained models are (Wennberg & Henter 2021, Section 3, Appendix B).

R² is that of `relpos.analysis.toeplitz_r2`. From 0.8 on it counts as close, below 0.5 as not close.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path

import numpy as np

from relpos.claims.finding import FAILS, HOLDS, NOT_RUN, UNDECIDED, Finding
from relpos.claims.scales import Scale
from relpos.claims.weights import OfModels, load, snapshots
from relpos.tables.statistics import ALPHA, paired

CLOSE, NOT_CLOSE = 0.8, 0.5
RANDOM = 20
"""Random tables that a trained one is held against: above all of them by chance once in 21 times."""


def products(table: np.ndarray) -> np.ndarray:
    """P = E E^T (n, n) of an embedding table (n, width)."""
    return table @ table.T


def table_of(folder: Path, share: int | None = None) -> np.ndarray:
    """The position table (n, embedding) of a model with absolute positions."""
    table: np.ndarray = load(folder, share).encoder.position.table.detach().double().numpy()
    return table


def r2(matrix: np.ndarray) -> float:
    from relpos.analysis import toeplitz_r2

    return toeplitz_r2(matrix)


def _judged(values: Sequence[float]) -> str:
    middle = float(np.median(values))
    return HOLDS if middle >= CLOSE else FAILS if middle < NOT_CLOSE else UNDECIDED


@dataclass(frozen=True)
class CloseToToeplitz(OfModels):
    """The median R² of P = E E^T over the models is close to 1, and above that of random tables of the same shape.

    The diagonal of P makes R² about d/(d + n) for a random (n, d) table, 0.86 for (128, 768). Holds: the median is `CLOSE` or more
    and above every one of 20 random tables. Fails: it is not above all of them, or below `NOT_CLOSE`.
    """

    @property
    def says(self) -> str:
        return f"R² of P = E·E^T of {self.row} is {CLOSE} or more (fails below {NOT_CLOSE}), and above {RANDOM} random tables"

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        tables = [table_of(folder) for folder in folders]
        found = [r2(products(table)) for table in tables]
        chance = max(r2(products(np.random.default_rng(seed).standard_normal(tables[0].shape))) for seed in range(RANDOM))
        verdict = _judged(found) if float(np.median(found)) > chance else FAILS
        said = ", ".join(f"{one:.2f}" for one in found)
        figures = f"R² {said} of {len(found)} models; the highest of {RANDOM} random tables {chance:.2f}"
        return Finding(verdict, figures, scale.label)


@dataclass(frozen=True)
class ProfilesCloseToToeplitz(OfModels):
    """The same of what positions do to the scores of each head of the first layer; the median over heads and models counts."""

    @property
    def says(self) -> str:
        return f"R² of the position products of {self.row}'s heads is {CLOSE} or more (fails below {NOT_CLOSE})"

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        from relpos.analysis.patterns import pattern

        found: list[float] = []
        for folder in folders:
            shown = pattern(load(folder).encoder, length=scale.meaning["length"])
            found += [r2(head.numpy()) for head in shown.matrix] if shown else []
        if not found:
            return Finding(NOT_RUN, f"{self.row} has no position products", scale.label)
        figures = (
            f"R² {min(found):.2f} to {max(found):.2f}, median {np.median(found):.2f}, over {len(found)} heads of the first layer"
        )
        return Finding(_judged(found), figures, scale.label)


@dataclass(frozen=True)
class RisesWithTraining(OfModels):
    """R² of P rises along the snapshots of a run: its slope over log2 of the steps.

    Holds: the 95 % interval of the mean slope over runs lies above zero; fails: below. One run alone decides nothing.
    """

    @property
    def says(self) -> str:
        return f"R² of P of {self.row} rises along the training"

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        slopes, said = [], []
        for folder in folders:
            shares = snapshots(folder)
            if len(shares) < 3:
                continue
            found = [r2(products(table_of(folder, share))) for share in shares]
            slopes.append(float(np.polyfit([log2(share) for share in shares], found, 1)[0]))
            said.append(" ".join(f"{share} %: {one:.2f}" for share, one in zip(shares, found, strict=True)))
        if not slopes:
            return Finding(NOT_RUN, "needs three snapshots=[…] or more of a run", scale.label)
        test = paired(slopes, [0.0] * len(slopes))
        verdict = UNDECIDED if test is None else HOLDS if test.low > 0 else FAILS if test.high < 0 else UNDECIDED
        figures = f"{'; '.join(said)}; slope {np.mean(slopes):+.3f} a doubling over {len(slopes)} runs"
        return Finding(verdict, figures, scale.label)


@dataclass(frozen=True)
class GoesWithScore(OfModels):
    """Among runs of equal steps, those with a higher R² of P have a lower held-out loss: Spearman's ρ, from five runs on."""

    @property
    def says(self) -> str:
        return f"R² of P and held-out loss of {self.row} are negatively correlated among runs of equal steps"

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        from scipy.stats import spearmanr

        from relpos.runs.run import read_record

        if len(folders) < 5:
            return Finding(NOT_RUN, f"needs five pre-training seeds or more; there are {len(folders)}", scale.label)
        losses = [read_record(folder)["metrics"]["heldout_loss"] for folder in folders]
        found = spearmanr([r2(products(table_of(folder))) for folder in folders], losses)
        clear = found.pvalue < ALPHA
        verdict = HOLDS if clear and found.statistic < 0 else FAILS if clear else UNDECIDED
        return Finding(verdict, f"ρ {found.statistic:+.2f}, p {found.pvalue:.2g}, {len(folders)} runs", scale.label)


@dataclass(frozen=True)
class SeldomTrainedIsLess(OfModels):
    """In models trained on inputs shorter than their table, the last trained positions have a higher R² than as many after them.

    Both blocks are equally wide, for R² falls with the width by itself. Holds: the 95 % interval of the difference over models lies
    above zero; fails: below.
    """

    @property
    def says(self) -> str:
        return f"R² of P of {self.row} is higher among the last trained positions than among as many after them"

    def at(self, scale: Scale, folders: Sequence[Path]) -> Finding:
        length, rows = scale.meaning["length"], scale.meaning["size"]["max_positions"]
        width = min(length, rows - length)
        if width < 8:
            return Finding(NOT_RUN, "needs a run with length= below size.max_positions=", scale.label)
        tables = [table_of(folder) for folder in folders]
        blocks = slice(length - width, length), slice(length, length + width)
        inside, outside = ([r2(products(table[block])) for table in tables] for block in blocks)
        test = paired(inside, outside)
        verdict = UNDECIDED if test is None else HOLDS if test.low > 0 else FAILS if test.high < 0 else UNDECIDED
        said = [
            f"{np.mean(some):.2f} of positions {block.start + 1} to {block.stop}"
            for some, block in zip((inside, outside), blocks, strict=True)
        ]
        return Finding(verdict, f"R² {', '.join(said)}, {len(folders)} runs", scale.label)
