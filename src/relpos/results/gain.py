"""The difference between two rows of one scale, over their pre-trainings, and the words that say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np

from relpos.measures.measure import NATS, Figure, measured_columns
from relpos.results.contrast import contrast
from relpos.results.scale import MEAN, Scale, Seed, named
from relpos.results.statistics import Difference, clustered, paired_by_seed
from relpos.results.values import GLUE

MEASURES = {"loss": "held-out loss", "order": "shuffle gap over all words"}
"""The measures in nats in which rows are compared."""
WHERE = {"loss": " nats of held-out loss less", "order": " nats of shuffle gap more"}


class Contrast(NamedTuple):
    """Two rows; the first is expected to be better."""

    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.first} − {self.second}"


@dataclass(frozen=True)
class Gain:
    """`first` − `second` in one column, or in the mean of the columns that both have.

    Args:
        value: difference of the means, × 100; for `loss` and `order`, nats.
        tested: the difference with its error over pre-trainings; None if the rows do not show how much pre-trainings differ.
        columns: the columns of the mean; empty if both rows are at the constant answer, so that nothing can be said.
        said: `composite − absolute +3.2 [+1.0, +5.4] over 10 pre-training seeds, 18 degrees of freedom`.
    """

    value: float
    tested: Difference | None
    columns: tuple[str, ...]
    said: str


def gain(scale: Scale, rows: Sequence[str], column: str = MEAN, only: Sequence[str] | None = None) -> Gain | None:
    """The gain of one row over another; None if one of them has no score in this column.

    Args:
        scale: all its rows together show how much pre-trainings differ, see `relpos.results.contrast`.
        rows: the row that is expected to be better, and the one that it is compared with.
        column: of GLUE, `loss` or `order`, or `glue`: the mean of the nine, or of those that both rows have. Columns in which
            neither row is better than the constant answer are left out; if none is left, nothing can be said.
        only: the columns of the mean; None: all.
    """
    first, second = rows
    names = scale.shared(named(column, only), *rows)
    if not names:
        return None
    # Both at the constant answer says nothing of them; their zero difference would shrink the mean of the others.
    columns = scale.telling(names, first, second)
    if not columns:
        return Gain(0.0, None, (), f"{first} and {second}: at the constant answer in {', '.join(names)}")
    if not (found := _estimate(scale, {first: 1.0, second: -1.0}, columns)):
        return None
    value, tested = found
    places, over = digits(columns[0]), _of_texts(scale, rows, columns)
    if tested:
        beside = f"; these pairs alone {tested.alone.interval(places)}" if tested.alone else ""
        spread = f"{tested.interval(places)} over {tested.n} {scale.units}, {tested.freedom:.3g} degrees of freedom{beside}"
    else:  # all that can be said is how much these two models differ
        single = [scale.singles(row, columns) for row in rows]
        spread = "(one run each)" if [*map(len, single)] == [1, 1] else "(no pre-training seeds to compare)"
        if models := between_models(*single):
            how = f"{models.interval(places)} over {models.n} fine-tunings"
            spread = f"(these two models: {how}; says nothing about other pre-trainings)"
    return Gain(value, tested, tuple(columns), f"{first} − {second} {value:+.{places}f} {spread}{_where(columns)}{over}")


def mean_gain(scale: Scale, pairs: Sequence[Contrast], column: str, only: Sequence[str] | None) -> Gain | None:
    """The mean of the gains of several pairs `(first, second)`, in the columns that all of these rows have."""
    # A row may stand in several pairs: its weights add up.
    weights = dict.fromkeys(sorted({row for pair in pairs for row in pair}), 0.0)
    for first, second in pairs:
        weights[first] += 1 / len(pairs)
        weights[second] -= 1 / len(pairs)
    columns = scale.telling(named(column, only), *weights)
    if not columns or not (found := _estimate(scale, weights, columns)):
        return None
    value, tested = found
    places = digits(columns[0])
    spread = f" {tested.interval(places)} over {tested.n} {scale.units}" if tested else ""
    return Gain(value, tested, tuple(columns), f"mean of these {value:+.{places}f}{spread}{_where(columns)}")


def _estimate(scale: Scale, weights: Mapping[str, float], columns: Sequence[str]) -> tuple[float, Difference | None] | None:
    """Σ weight · row, and with its error if the rows show one; None if a row has no run with all of these columns."""
    rows = scale.by_seed(columns)
    if not all(rows[row] for row in weights):
        return None
    # All rows of the scale go along, because together they show how much pre-trainings differ.
    tested = contrast(rows, weights, scale.at_constant(columns))
    return tested.value if tested else sum(weight * fmean(rows[row].values()) for row, weight in weights.items()), tested


def between_models(first: Mapping[Seed, float], second: Mapping[Seed, float]) -> Difference | None:
    """The difference of two models, one pre-training each, paired over their fine-tuning seeds.

    None for rows of several pre-trainings. It says nothing about other pre-trainings of these two rows.

    >>> between_models({(0, 0): 71.0, (0, 1): 73.0}, {(0, 0): 70.0, (0, 1): 71.0}).value
    1.5
    """
    if max(len({seed for seed, _ in each}) for each in (first, second)) > 1:
        return None
    ours, theirs = ({seed: value for (_, seed), value in each.items()} for each in (first, second))
    # Paired by seeds, because what a seed of a fine-tuning does (order of the examples) it does to both.
    return paired_by_seed(ours, theirs)


def over_texts(first: Sequence[Figure], second: Sequence[Figure]) -> Difference | None:
    """The difference of two rows' losses on the same held-out text, with its error over documents, or over examples where their
    documents were not kept: by how much other text would change the difference of these networks, of each of which a figure is
    given. None where losses were not kept by example, or not of the same examples.
    """
    parts = [[figure.parts for figure in figures if figure.parts is not None] for figures in (first, second)]
    sizes = {tuple(sizes) for of_row in parts for _, sizes in of_row}
    if len(sizes) != 1 or [*map(len, parts)] != [len(first), len(second)]:
        return None
    ours, theirs = (np.mean([nats for nats, _ in of_row], 0) for of_row in parts)
    return clustered(ours - theirs, np.array(sizes.pop()), _documents(first, second))


def _documents(first: Sequence[Figure], second: Sequence[Figure]) -> Sequence[float] | None:
    """The document of each example, of networks that were measured on the same text; None where these were not kept."""
    return next((figure.documents for figure in (*first, *second) if figure.documents), None)


def _of_texts(scale: Scale, rows: Sequence[str], columns: Sequence[str]) -> str:
    if len(columns) > 1 or columns[0] not in WHERE:
        return ""
    first, second = ([each.figure or Figure(each.value) for each in scale.values[row][columns[0]]] for row in rows)
    if not (over := over_texts(first, second)):
        return ""
    return f"; ±{over.high - over.value:.3f} over {over.n:,} held-out {'documents' if _documents(first, second) else 'examples'}"


def digits(column: str) -> int:
    """Decimals with which differences in a column are shown."""
    of_measure = measured_columns().get(column)
    return 3 if column in WHERE or (of_measure and of_measure[1].metric == NATS) else 1


def _where(columns: Sequence[str]) -> str:
    if len(columns) == len(GLUE):
        return ""
    if columns[0] in WHERE:
        return WHERE[columns[0]]
    return f" in {columns[0]}" if len(columns) == 1 else f" in the mean of {', '.join(columns)}"
