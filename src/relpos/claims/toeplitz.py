"""Rules about how close to Toeplitz the positions of trained models are (Wennberg & Henter 2021, Section 3, Appendix B).

R² is that of `relpos.analysis.toeplitz_r2`; 0.8 or more counts as close, less than 0.5 as not close. Of a position table only those
rows count that at least half of the training examples reach: later rows are hardly trained and close to random, and would lower R²
whatever the others have learned. A network that has learned no order says nothing of trained positions: its table is still random.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import atanh, ceil, isnan, log2
from pathlib import Path
from typing import Any

import numpy as np
import torch

from relpos.analysis.patterns import pattern
from relpos.analysis.toeplitz import toeplitz_r2
from relpos.claims.comparisons import decided
from relpos.claims.effort import longer, models, plural
from relpos.claims.rule import SEVERAL, Place, Test, rule
from relpos.claims.verdict import FAILS, HOLDS, NOT_RUN, UNDECIDED, Evidence, Verdict, sided
from relpos.claims.weights import encoder, of_weights
from relpos.data.store import Store
from relpos.errors import RelposError
from relpos.results.scale import Scale
from relpos.results.statistics import Difference, paired
from relpos.runs.run import read_record
from relpos.runs.shelf import snapshots

CLOSE, NOT_CLOSE = 0.8, 0.5
RANDOM = 20
"""Random tables that a trained one is compared with: one more random table would exceed all of them once in 21 times."""
SAMPLE = 10_000
"""Training examples whose lengths are read."""
NARROWEST = 8
"""The fewest rows of a block of a table for which R² tells something."""
FOR_CORRELATION = 5
"""The fewest runs over which a correlation is computed."""


def r2(table: np.ndarray, main: bool = True) -> float:
    """R² of P = E E^T (n, n) of an embedding table (n, width); `main` as in `toeplitz_r2`."""
    return toeplitz_r2(table @ table.T, main)


def table_of(folder: Path, share: int | None = None) -> np.ndarray:
    """The position table (n, embedding) of a model with absolute positions."""
    table: np.ndarray = encoder(folder, share).position.table.detach().double().numpy()
    return table


def off_diagonal(tables: Sequence[np.ndarray]) -> str:
    """`; without the main diagonal 0.04, 0.06`"""
    return f"; without the main diagonal {', '.join(f'{r2(table, main=False):.2f}' for table in tables)}"


def reached(scale: Scale, folder: Path) -> int:
    """How many rows of the position table at least half of the training examples reach.

    In two-stage training each stage counts with its number of examples. If the store of the text is gone: all rows up to `length`.
    Of a published network: all, because its training is not known.
    """
    meaning = scale.meaning
    if not scale.can_go_on:
        return int(meaning["size"]["max_positions"])
    whole = int(min(meaning["length"], meaning["size"]["max_positions"]))
    try:
        store = Store(Path(read_record(folder)["inputs"]["store"]))
    except (KeyError, RelposError):
        return whole
    stages = [(1.0, whole)]
    if first := meaning.get("first"):
        stages = [(first["share"] * first["batch"], int(first["length"])), ((1 - first["share"]) * meaning["batch"], whole)]
    lengths, weights = zip(*(_lengths(store, meaning, length, weight) for weight, length in stages), strict=True)
    return _at_least_half(np.concatenate(lengths), np.concatenate(weights))


def _lengths(store: Store, meaning: dict[str, Any], length: int, weight: float) -> tuple[np.ndarray, np.ndarray]:
    """Lengths in tokens of training examples, evenly spaced among all, and the weight of each."""
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
    # The median, which one network that did not learn hardly moves.
    middle = float(np.median(values))
    return HOLDS if middle >= CLOSE else FAILS if middle < NOT_CLOSE else UNDECIDED


@of_weights(
    f"R² of P = E·E^T of {{row}} is {CLOSE} or more (fails below {NOT_CLOSE}), and above {RANDOM} random tables",
    is_about_order=True,
)
def close_to_toeplitz(scale: Scale, row: str, folders: Sequence[Path]) -> Verdict:
    """The median R² of P = E E^T over the models is close to 1, and above that of random tables of the same shape.

    The diagonal of P makes R² about d/(d + n) for a random (n, d) table, 0.86 for (128, 768). Holds: the median is `CLOSE` or more
    and above every one of 20 random tables. Fails: it is not above all of them, or below `NOT_CLOSE`.
    """
    rows = reached(scale, folders[0])
    # `rows` are those of the first: all runs of a scale read the same text.
    tables = [table_of(folder)[:rows] for folder in folders]
    values = [r2(table) for table in tables]
    # R² of P has no known null distribution: the trained tables must be above all of the random ones.
    by_chance = [np.random.default_rng(seed).standard_normal(tables[0].shape) for seed in range(RANDOM)]
    chance = max(map(r2, by_chance))
    verdict = _judged(values) if float(np.median(values)) > chance else FAILS
    said = ", ".join(f"{value:.2f}" for value in values)
    figures = (
        f"R² {said} of {plural(len(values), 'model')}, {_of_rows(scale, rows)}; the highest of {RANDOM} random tables {chance:.2f}"
        f"{off_diagonal(tables)}, random {max(r2(table, main=False) for table in by_chance):.2f}"
    )
    return Verdict(verdict, figures, takes=longer(scale))


def _of_rows(scale: Scale, rows: int) -> str:
    return f"positions 1 to {rows}" + ", which half of the examples reach" * scale.can_go_on


@of_weights(f"R² of the position products of {{row}}'s heads is {CLOSE} or more (fails below {NOT_CLOSE})", is_about_order=True)
def profiles_close_to_toeplitz(scale: Scale, row: str, folders: Sequence[Path]) -> Verdict:
    """What positions add to the scores of the heads of the first layer is close to Toeplitz: the median R² over heads and models.

    The bounds are those of `close_to_toeplitz`; there is no comparison with random tables.
    """
    values: list[float] = []
    for folder in folders:
        shown = pattern(encoder(folder), length=scale.meaning["length"])
        values += [toeplitz_r2(head.numpy()) for head in shown.matrix] if shown else []
    if not values:
        return Verdict(NOT_RUN, f"{row} has no position products")
    spread = f"R² {min(values):.2f} to {max(values):.2f}, median {np.median(values):.2f}"
    return Verdict(_judged(values), f"{spread}, over {len(values)} heads of the first layer", takes=longer(scale))


def _above_zero(scale: Scale, row: str, figures: str, tested: Difference | None, how: str = "") -> Verdict:
    """The verdict on a difference over the models of one row; a single model leaves it undecided."""
    needs = models(scale, row, SEVERAL, how)
    return decided(scale, [figures], [tested], lambda known: sided(known[0]), needs, of_row=row)


@of_weights("R² of P of {row} rises along the training", seeds=SEVERAL)
def rises_with_training(scale: Scale, row: str, folders: Sequence[Path]) -> Verdict:
    """R² of P rises along the snapshots of a run: its slope over log2 of the steps.

    Holds: the 95 % interval of the mean slope over runs lies above zero. Fails: it lies below. A single run leaves it undecided.
    """
    slopes, said = [], []
    for folder in folders:
        shares = snapshots(folder)
        if len(shares) < 3:
            continue
        rows = reached(scale, folder)
        tables = [table_of(folder, share)[:rows] for share in shares]
        values = [r2(table) for table in tables]
        # Over log2 of the share, because early snapshots lie close together and change most.
        slopes.append(float(np.polyfit([log2(share) for share in shares], values, 1)[0]))
        course = " ".join(f"{share} %: {value:.2f}" for share, value in zip(shares, values, strict=True))
        said.append(course + off_diagonal(tables))
    if not slopes:
        return Verdict(NOT_RUN, "needs three snapshots=[…] or more of a run")
    slope = f"slope {np.mean(slopes):+.3f} per doubling over {plural(len(slopes), 'run')}, {_of_rows(scale, rows)}"
    tested = paired(slopes, [0.0] * len(slopes))
    return _above_zero(scale, row, f"{'; '.join(said)}; {slope}", tested, "with three snapshots=[…] or more")


@of_weights("R² of P and held-out loss of {row} are negatively correlated among runs of equal steps", FOR_CORRELATION)
def goes_with_score(scale: Scale, row: str, folders: Sequence[Path]) -> Verdict:
    """Among runs of equal steps, those with a higher R² of P have a lower held-out loss: Spearman's ρ over five runs or more."""
    from scipy.stats import spearmanr

    if len(folders) < FOR_CORRELATION:
        return Verdict(NOT_RUN, f"needs {FOR_CORRELATION} pre-training seeds or more; there are {len(folders)}")
    rows = reached(scale, folders[0])
    # Of the runs whose weights are here, in the same order.
    losses = [loss for seed, loss in scale.losses(row).items() if scale.folders[row][seed] in folders]
    correlated = spearmanr([r2(table_of(folder)[:rows]) for folder in folders], losses)
    # NaN where all R² or all losses are equal, which says nothing of how they go together.
    rho, p = (0.0, 1.0) if isnan(correlated.statistic) else (float(correlated.statistic), float(correlated.pvalue))
    evidence = Evidence(p if rho < 0 else 1.0, p if rho > 0 else 1.0)
    figures = f"ρ {rho:+.2f}, p {p:.2g}, {len(folders)} runs, {_of_rows(scale, rows)}"
    return Verdict(evidence.verdict, figures, p=evidence.p, takes=models(scale, row, _runs_for(rho)))


def _runs_for(rho: float) -> int:
    """How many runs find a correlation as large as this with probability 0.8 (Fisher's z, two-sided, 0.05)."""
    # 2.8 = 1.96 + 0.84, normal quantiles; z has a variance of 1 / (n − 3).
    return ceil(3 + (2.8 / atanh(min(max(abs(rho), 0.01), 0.99))) ** 2)


@of_weights(
    "R² of P of {row}: higher among the last positions that half of the examples reach than among as many after",
    seeds=SEVERAL,
    is_about_order=True,
)
def seldom_trained_is_less(scale: Scale, row: str, folders: Sequence[Path]) -> Verdict:
    """The last positions that half of the training examples reach have a higher R² than as many after them.

    Both blocks are equally wide, because R² falls with the width. Holds: the 95 % interval of the difference over models lies above
    zero. Fails: it lies below.
    """
    # The last ones that were trained and not all: the first positions stand in every example, and differ by that, too.
    trained = reached(scale, folders[0])
    width = min(trained, scale.meaning["size"]["max_positions"] - trained)
    if width < NARROWEST:
        return Verdict(NOT_RUN, "needs runs on examples shorter than size.max_positions=: half of them reach all positions")
    tables = [table_of(folder) for folder in folders]
    blocks = slice(trained - width, trained), slice(trained, trained + width)
    inside, outside = ([r2(table[block]) for table in tables] for block in blocks)
    said = [
        f"{np.mean(some):.2f} of positions {block.start + 1} to {block.stop}"
        for some, block in zip((inside, outside), blocks, strict=True)
    ]
    return _above_zero(scale, row, f"R² {', '.join(said)}, {plural(len(folders), 'run')}", paired(inside, outside))


def _newer_says(test: Test) -> str:
    newer, older = (" and ".join(test.options[key]) for key in ("newer", "older"))
    return f"R² of P of each {newer} is above that of each {older} with a table of the same shape"


@rule(_newer_says, places=lambda test, runs: [Place(tuple(runs.published), "published networks")])
def newer_is_more(test: Test, *scales: Scale, newer: Sequence[str], older: Sequence[str]) -> Verdict:
    """R² of P of every published network of the newer families is above that of every one of the older; fails otherwise.

    R² depends on the shape of a table, so that only tables of one shape are compared. Families are named by their `model_type`.
    """
    tables = {scale.label: table_of(scale.folders["absolute"][0]) for scale in scales}
    families = {scale.label: scale.meaning["family"] for scale in scales}
    of_newer, of_older = ([label for label, family in families.items() if family in known] for known in (newer, older))
    pairs = [(new, old) for new, old in product(of_newer, of_older) if tables[new].shape == tables[old].shape]
    if not pairs:
        needs = f"needs published networks of both kinds, {'/'.join(newer)} and {'/'.join(older)}: network=[…]"
        return Verdict(NOT_RUN, needs, "—")
    values = {label: r2(tables[label]) for label in dict.fromkeys(label for pair in pairs for label in pair)}
    verdict = HOLDS if all(values[new] > values[old] for new, old in pairs) else FAILS
    return Verdict(verdict, "R² of P: " + ", ".join(f"{label} {value:.2f}" for label, value in values.items()))
