"""Rules about how close to Toeplitz the positions of trained networks are (Wennberg & Henter 2021, Section 3, Appendix B).

R² is what `relpos.measures.kinds.toeplitz` has measured; 0.8 or more counts as close, less than 0.5 as not close. Of a position
table only those rows count that at least half of the training examples reach. A network that has learned no order says nothing of
trained positions: its table is still random.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import atanh, ceil, isnan, log2
from typing import Any

import numpy as np

from relpos.claims.comparisons import decided
from relpos.claims.rule import SEVERAL, Place, Test, rule
from relpos.claims.verdict import FAILS, HOLDS, NOT_RUN, UNDECIDED, Evidence, Verdict, longer, models, plural, sided
from relpos.claims.weights import Networks, about_weights, measured_heads, networks
from relpos.measures.kinds.patterns import Patterns
from relpos.measures.kinds.toeplitz import Toeplitz
from relpos.measures.measure import Measured
from relpos.results.scale import Scale
from relpos.results.statistics import Difference, paired

CLOSE, NOT_CLOSE = 0.8, 0.5
MEASURE = Toeplitz()
FOR_CORRELATION = 5
"""The fewest runs over which a correlation is computed."""


def _of(found: Networks, key: str) -> list[Any]:
    return [network.results["toeplitz"][key] for network in found.values()]


def _along(network: Measured, key: str) -> dict[int, float]:
    """Per cent of the steps → a result."""
    return {percent: results["toeplitz"][key] for percent, results in sorted(network.course.items())}


def _off_diagonal(values: Sequence[float]) -> str:
    """`; without the main diagonal 0.04, 0.06`"""
    return f"; without the main diagonal {', '.join(f'{value:.2f}' for value in values)}"


def _judged(values: Sequence[float]) -> str:
    # The median, which one network that did not learn hardly moves.
    middle = float(np.median(values))
    return HOLDS if middle >= CLOSE else FAILS if middle < NOT_CLOSE else UNDECIDED


@about_weights(
    MEASURE,
    f"R² of P = E·E^T of {{row}} is {CLOSE} or more (fails below {NOT_CLOSE}), and above {MEASURE.random} random tables",
    is_about_order=True,
)
def close_to_toeplitz(scale: Scale, row: str, found: Networks) -> Verdict:
    """The median R² of P = E E^T over the models is close to 1, and above that of random tables of the same shape.

    The diagonal of P makes R² about d/(d + n) for a random (n, d) table, 0.86 for (128, 768). Holds: the median is `CLOSE` or more
    and above every one of 20 random tables. Fails: it is not above all of them, or below `NOT_CLOSE`.
    """
    values, chance = _of(found, "r2"), max(_of(found, "chance"))
    # R² of P has no known null distribution: the trained tables must be above all of the random ones.
    verdict = _judged(values) if float(np.median(values)) > chance else FAILS
    said = ", ".join(f"{value:.2f}" for value in values)
    figures = (
        f"R² {said} of {plural(len(values), 'model')}, {_rows(scale, found)}; the highest of {MEASURE.random} random tables"
        f" {chance:.2f}{_off_diagonal(_of(found, 'r2_off'))}, random {max(_of(found, 'chance_off')):.2f}"
    )
    return Verdict(verdict, figures, takes=longer(scale))


def _rows(scale: Scale, found: Networks) -> str:
    # Those of the first: all runs of a scale read the same text.
    return f"positions 1 to {_of(found, 'rows')[0]}" + ", which half of the examples reach" * scale.can_go_on


@about_weights(
    Patterns(), f"R² of the position products of {{row}}'s heads is {CLOSE} or more (fails below {NOT_CLOSE})", is_about_order=True
)
def profiles_close_to_toeplitz(scale: Scale, row: str, found: Networks) -> Verdict:
    """What positions add to the scores of the heads of the first layer is close to Toeplitz: the median R² over heads and models.

    The bounds are those of `close_to_toeplitz`; there is no comparison with random tables.
    """
    values = [value for value in measured_heads(found, "r2") if value is not None]
    if not values:
        return Verdict(NOT_RUN, f"{row} has no position products")
    spread = f"R² {min(values):.2f} to {max(values):.2f}, median {np.median(values):.2f}"
    return Verdict(_judged(values), f"{spread}, over {len(values)} heads of the first layer", takes=longer(scale))


def _above_zero(scale: Scale, row: str, figures: str, tested: Difference | None, how: str = "") -> Verdict:
    """The verdict on a difference over the models of one row; a single model leaves it undecided."""
    needs = models(scale, row, SEVERAL, how)
    return decided(scale, [figures], [tested], lambda known: sided(known[0]), needs, of_row=row)


@about_weights(MEASURE, "R² of P of {row} rises along the training", course=True)
def rises_with_training(scale: Scale, row: str, found: Networks) -> Verdict:
    """R² of P rises along the snapshots of a run: its slope over log2 of the steps.

    Holds: the 95 % interval of the mean slope over runs lies above zero. Fails: it lies below. A single run leaves it undecided.
    """
    slopes, said = [], []
    for network in found.values():
        if len(network.course) < 3:
            continue
        course = _along(network, "r2")
        # Over log2 of the share, because early snapshots lie close together and change most.
        slopes.append(float(np.polyfit(list(map(log2, course)), list(course.values()), 1)[0]))
        values = " ".join(f"{percent} %: {value:.2f}" for percent, value in course.items())
        said.append(values + _off_diagonal(list(_along(network, "r2_off").values())))
    if not slopes:
        return Verdict(NOT_RUN, "needs three snapshots=[…] or more of a run")
    slope = f"slope {np.mean(slopes):+.3f} per doubling over {plural(len(slopes), 'run')}, {_rows(scale, found)}"
    tested = paired(slopes, [0.0] * len(slopes))
    return _above_zero(scale, row, f"{'; '.join(said)}; {slope}", tested, "with three snapshots=[…] or more")


@about_weights(MEASURE, "R² of P and held-out loss of {row} are negatively correlated among runs of equal steps")
def goes_with_score(scale: Scale, row: str, found: Networks) -> Verdict:
    """Among runs of equal steps, those with a higher R² of P have a lower held-out loss: Spearman's ρ over five runs or more."""
    from scipy.stats import spearmanr

    if len(found) < FOR_CORRELATION:
        return Verdict(NOT_RUN, f"needs {FOR_CORRELATION} pre-training seeds or more; there are {len(found)}")
    losses = scale.losses(row)
    correlated = spearmanr(_of(found, "r2"), [losses[seed] for seed in found])
    # NaN where all R² or all losses are equal, which says nothing of how they go together.
    rho, p = (0.0, 1.0) if isnan(correlated.statistic) else (float(correlated.statistic), float(correlated.pvalue))
    evidence = Evidence(p if rho < 0 else 1.0, p if rho > 0 else 1.0)
    figures = f"ρ {rho:+.2f}, p {p:.2g}, {len(found)} runs, {_rows(scale, found)}"
    # So many runs find it with probability 0.8, by Fisher's z, whose variance is 1 / (n − 3); 2.8 = 1.96 + 0.84, normal quantiles.
    needed = ceil(3 + (2.8 / atanh(min(max(abs(rho), 0.01), 0.99))) ** 2)
    return Verdict(evidence.verdict, figures, p=evidence.p, takes=models(scale, row, needed))


@about_weights(
    MEASURE,
    "R² of P of {row}: higher among the last positions that half of the examples reach than among as many after",
    is_about_order=True,
)
def seldom_trained_is_less(scale: Scale, row: str, found: Networks) -> Verdict:
    """The last positions that half of the training examples reach have a higher R² than as many after them.

    Both blocks are equally wide, because R² falls with the width. Holds: the 95 % interval of the difference over models lies above
    zero. Fails: it lies below.
    """
    if not all(_of(found, "beside")):
        return Verdict(NOT_RUN, "needs runs on examples shorter than size.max_positions=: half of them reach all positions")
    # The last ones that were trained and not all: the first positions stand in every example, and differ by that, too.
    inside, outside = zip(*_of(found, "beside"), strict=True)
    rows, width = _of(found, "rows")[0], _of(found, "beside_width")[0]
    said = [
        f"{np.mean(some):.2f} of positions {end - width + 1} to {end}"
        for some, end in zip((inside, outside), (rows, rows + width), strict=True)
    ]
    return _above_zero(scale, row, f"R² {', '.join(said)}, {plural(len(found), 'run')}", paired(inside, outside))


def _newer_says(test: Test) -> str:
    newer, older = (" and ".join(test.options[key]) for key in ("newer", "older"))
    return f"R² of P of each {newer} is above that of each {older} with a table of the same shape"


@rule(_newer_says, places=lambda test, runs: [Place(tuple(runs.published), "published networks")])
def newer_is_more(test: Test, *scales: Scale, newer: Sequence[str], older: Sequence[str]) -> Verdict:
    """R² of P of every published network of the newer families is above that of every one of the older; fails otherwise.

    R² depends on the shape of a table, so that only tables of one shape are compared. Families are named by their `model_type`.
    """
    found = {
        scale.label: (scale.meaning["family"], network.results["toeplitz"])
        for scale in scales
        for network in networks(scale.folders["absolute"], MEASURE).values()
    }
    of_newer, of_older = ([label for label, (family, _) in found.items() if family in known] for known in (newer, older))
    tables = {label: table for label, (_, table) in found.items()}
    pairs = [(new, old) for new, old in product(of_newer, of_older) if tables[new]["shape"] == tables[old]["shape"]]
    if not pairs:
        needs = f"needs published networks of both kinds, {'/'.join(newer)} and {'/'.join(older)}: network=[…]"
        return Verdict(NOT_RUN, needs, "—")
    verdict = HOLDS if all(tables[new]["P"] > tables[old]["P"] for new, old in pairs) else FAILS
    compared = dict.fromkeys(label for pair in pairs for label in pair)
    said = [f"{label} {tables[label]['P']:.2f}" for label in compared]
    return Verdict(verdict, f"R² of P: {', '.join(said)}")
