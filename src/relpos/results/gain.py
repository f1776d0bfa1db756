"""The difference between two rows of one scale over their pre-trainings, as a number with its error
and as a line of text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean
from typing import NamedTuple

import numpy as np

from relpos.measures.measure import NATS, measured_columns
from relpos.results.contrast import contrast
from relpos.results.scale import MEAN, Scale, columns_named
from relpos.results.statistics import Difference, clustered, paired
from relpos.results.values import GLUE, Seed

MEASURES = {"loss": "held-out loss", "order": "shuffle gap over all words"}
"""The measures in nats in which rows are compared."""
NOT_PRETRAINED = "not pre-trained"
"""The row of `Scale.untrained` beside those of its scale."""
WHERE = {"loss": " nats of held-out loss less", "order": " nats of shuffle gap more"}


class Contrast(NamedTuple):
    """Two rows; the first is expected to be better."""

    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.first} − {self.second}"


class Gain(NamedTuple):
    """`first` − `second` in one column, or in the mean of the columns that both have.

    Args:
        value: difference of the means, × 100; for `loss` and `order`, nats.
        tested: the difference with its error over pre-trainings; None if the rows do not show how
            much pre-trainings differ.
        columns: the columns of the mean; empty if none shows anything about the rows, see `gain`.
        text: `composite − absolute +3.2 [+1.0, +5.4] over 10 pre-training seeds, 18 degrees of
            freedom`.
    """

    value: float
    tested: Difference | None
    columns: tuple[str, ...]
    text: str


def gain(
    scale: Scale,
    rows: Sequence[str],
    column: str = MEAN,
    only: Sequence[str] | None = None,
) -> Gain | None:
    """The gain of one row over another; None if one of them has no score in this column.

    Args:
        scale: all its rows together show how much pre-trainings differ, see
            `relpos.results.contrast`.
        rows: the row that is expected to be better, and the one that it is compared with.
        column: of GLUE, `loss` or `order`, or `glue`: the mean of the nine, or of those that both
            rows have. Columns in which neither row is better than the constant answer, or no row
            than a network that was not pre-trained, are left out; if none is left, nothing can be
            said.
        only: the columns of the mean; None: all.
    """
    first, second = rows
    names = scale.shared(columns_named(column, only), *rows)
    if not names:
        return None
    # Two rows at the constant answer show nothing; their zero difference would shrink the mean over
    # the columns.
    telling = scale.telling(names, *rows)
    columns = _above_untrained(scale, telling)
    if not columns:
        why = "at the constant answer"
        if telling:
            why = "no row is surely ahead of a network that was not pre-trained"
        return Gain(0.0, None, (), f"{first} and {second}: {why} in {', '.join(names)}")
    value, tested = estimated(scale, {first: 1.0, second: -1.0}, columns)
    if value is None:
        return None
    places = digits(columns[0])
    if tested:
        spread = f"{tested.interval(places)} over {tested.n} {scale.units}, {tested.freedom:.3g} degrees of freedom"
        if tested.alone:
            spread += f"; these pairs alone {tested.alone.interval(places)}"
    else:
        spread = _between_singles(scale, rows, columns)
    text = f"{first} − {second} {value:+.{places}f} {spread}{_where(columns)}{_of_texts(scale, rows, columns)}"
    return Gain(value, tested, tuple(columns), text)


def _between_singles(scale: Scale, rows: Sequence[str], columns: Sequence[str]) -> str:
    """What rows without a spread over pre-trainings show: at most how much these two models
    differ."""
    first, second = (scale.singles(row, columns) for row in rows)
    if models := between_models(first, second):
        interval = f"{models.interval(digits(columns[0]))} over {models.n} fine-tunings"
        return f"(these two models: {interval}; says nothing about other pre-trainings)"
    if len(first) == len(second) == 1:
        return "(one run each)"
    return "(no pre-training seeds to compare)"


def mean_gain(
    scale: Scale,
    pairs: Sequence[Contrast],
    column: str,
    only: Sequence[str] | None,
) -> Gain | None:
    """The mean of the gains of several pairs `(first, second)`, in the columns that all of these
    rows have."""
    # A row may stand in several pairs: its weights add up.
    weights = dict.fromkeys(sorted({*chain(*pairs)}), 0.0)
    for first, second in pairs:
        weights[first] += 1 / len(pairs)
        weights[second] -= 1 / len(pairs)
    columns = _above_untrained(scale, scale.telling(columns_named(column, only), *weights))
    value, tested = estimated(scale, weights, columns)
    if value is None:
        return None
    places = digits(columns[0])
    spread = f" {tested.interval(places)} over {tested.n} {scale.units}" if tested else ""
    return Gain(
        value,
        tested,
        tuple(columns),
        f"mean of these {value:+.{places}f}{spread}{_where(columns)}",
    )


def _above_untrained(scale: Scale, columns: Sequence[str]) -> list[str]:
    """The columns, of these, in which some row of the scale is ahead of a network that was not
    pre-trained, see `says_nothing`; where there is no such network, all."""
    both = replace(scale, values=scale.values | {NOT_PRETRAINED: scale.untrained})

    def tells(column: str) -> bool:
        lows: list[float | None] = []
        for row in scale.values:
            lead, tested = estimated(both, {row: 1.0, NOT_PRETRAINED: -1.0}, [column])
            if lead is not None:
                lows.append(tested.low if tested else None)
        return not says_nothing(lows)

    return [column for column in columns if column not in scale.untrained or tells(column)]


def says_nothing(lows: Collection[float | None]) -> bool:
    """Whether a column tells no row from a network that was not pre-trained.

    Args:
        lows: of the leads of its rows over such a network, the lower ends of their 95 % intervals;
            None where a lead has no interval. Empty where there is no such network: this says
            nothing against the column.
    """
    return bool(lows) and not any(low and low > 0 for low in lows)


def estimated(
    scale: Scale,
    weights: Mapping[str, float],
    columns: Sequence[str],
) -> tuple[float | None, Difference | None]:
    """Σ weight · row, and the same with its error if the rows show one; None, None if a row has no
    run with all of these columns."""
    rows = scale.by_seed(columns) if columns else {}
    if not all(rows.get(row) for row in weights):
        return None, None
    # All rows of the scale take part, because together they show how much pre-trainings differ.
    if tested := contrast(rows, weights, scale.apart(columns)):
        return tested.value, tested
    return sum(weight * fmean(rows[row].values()) for row, weight in weights.items()), None


def between_models(first: Mapping[Seed, float], second: Mapping[Seed, float]) -> Difference | None:
    """The difference of two models, one pre-training each, paired over their fine-tuning seeds.

    None for rows of several pre-trainings. It says nothing about other pre-trainings of these two
    rows.

    >>> between_models({(0, 0): 71.0, (0, 1): 73.0}, {(0, 0): 70.0, (0, 1): 71.0}).value
    1.5
    """
    if max(len({seed for seed, _ in scores}) for scores in (first, second)) > 1:
        return None
    ours, theirs = (
        {seed: value for (_, seed), value in scores.items()} for scores in (first, second)
    )
    # Paired, because the seed of a fine-tuning (the order of its examples) acts on both models
    # alike.
    return paired([ours[seed] - theirs[seed] for seed in ours if seed in theirs])


def _of_texts(scale: Scale, rows: Sequence[str], columns: Sequence[str]) -> str:
    """By how much another held-out text would change the difference of these networks: half of its
    95 % interval over documents, or over examples where their documents were not kept.

    Empty where nats were not kept by example, or not of the same examples.
    """
    if len(columns) > 1 or columns[0] not in WHERE:
        return ""
    of_rows = [scale.values[row][columns[0]] for row in rows]
    figures = [[value.figure for value in values if value.figure] for values in of_rows]
    parts = [[figure.parts for figure in of_row if figure.parts is not None] for of_row in figures]
    sizes = {tuple(sizes) for _, sizes in chain(*parts)}
    if len(sizes) != 1 or [*map(len, parts)] != [*map(len, of_rows)]:
        return ""
    ours, theirs = (np.mean([nats for nats, _ in of_row], 0) for of_row in parts)
    documents = next((figure.documents for figure in chain(*figures) if figure.documents), None)
    over = clustered(ours - theirs, np.array(sizes.pop()), documents)
    units = "documents" if documents else "examples"
    return f"; ±{over.high - over.value:.3f} over {over.n:,} held-out {units}"


def digits(column: str) -> int:
    """Decimals with which differences in a column are shown."""
    of_measure = measured_columns().get(column)
    is_in_nats = column in WHERE or (of_measure and of_measure[1].metric == NATS)
    return 3 if is_in_nats else 1


def _where(columns: Sequence[str]) -> str:
    if len(columns) == len(GLUE):
        return ""
    if len(columns) == 1:
        return WHERE.get(columns[0], f" in {columns[0]}")
    return f" in the mean of {', '.join(columns)}"
