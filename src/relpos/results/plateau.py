"""When and how far a row has left the bag-of-words plateau: the loss of a network that knows the
words but not their order.

All rows are of one scale, and one of them is `none`, which has no positions. *Order known* after a
number of tokens is

    (loss of none then − loss of the row then) ÷ (loss of none − lowest loss of all rows, both at
    the end)

and a row *finds order* at the number of tokens at which it first knows half.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from relpos.results.contrast import Spread, Units, contrast, spread
from relpos.results.statistics import Difference

NONE = "none"
"""The row without positions, which cannot leave the plateau, unless its attention is causal, which
is an order by itself."""
LEAST_GAP = 0.1
"""Nats: the whole interval of the shuffle gap of a row that has left the plateau is above."""
LEAST_KNOWN = 0.1
"""The fraction of the best row's order that such a row must know: the gap shows how much a row
relies on order, not how much it gains."""
LEAD = 0.05
"""Nats by which its loss must be below that of `none` where there are too few seeds to estimate
noise."""
PLATEAU = f"no lead over {NONE} or no shuffle gap above {LEAST_GAP} nats beyond noise, or too little order"
KNOWING = 0.9
"""The fraction of order from which on a row knows the order; below it is on its way."""
HALF = 0.5
"""The fraction of order at which a row has found order."""
Curve = Mapping[int, float]
"""Tokens → held-out loss along one training."""


class Onset(NamedTuple):
    """After how many tokens a row has found order.

    Args:
        tokens: None if the row has not found order.
        low: lower end of the 95 % interval of the mean logarithm over seeds; with one seed the
            evaluation before. For a row that has not found order, the last evaluation.
        high: upper end, with one seed the evaluation after; None for a row that has not found
            order.
    """

    tokens: float | None
    low: float
    high: float | None


def order_known(losses: Mapping[str, Units], row: str) -> float | None:
    """(loss of `none` − loss of the row) ÷ (loss of `none` − lowest loss), means over seeds; None
    without a row `none`.

    >>> order_known({"none": {0: 6.0}, "absolute": {0: 5.5}, "fixed": {0: 4.0}}, "absolute")
    0.25
    """
    if not (losses.get(NONE) and losses.get(row)):
        return None
    means = {name: fmean(units.values()) for name, units in losses.items() if units}
    most = _all_order(means)
    return (means[NONE] - means[row]) / most if most > 0 else 0.0


def on_their_way(losses: Mapping[str, Units]) -> list[str]:
    """The rows that know less than `KNOWING` of the order; none without a row `none`.

    When such a row finds order differs from seed to seed by far more than the losses of rows that
    know it, so that neither says anything about the spread of the other.

    >>> on_their_way({"none": {0: 6.0}, "absolute": {0: 5.5}, "fixed": {0: 4.0}, "tisa": {0: 4.1}})
    ['none', 'absolute']
    """
    shares = {row: order_known(losses, row) for row in losses}
    return [row for row, share in shares.items() if share is not None and share < KNOWING]


def _all_order(means: Mapping[str, float]) -> float:
    """All the order that a row may know: nats by which the lowest loss is below that of `none`."""
    return means[NONE] - min(means.values())


def is_on_plateau(losses: Mapping[str, Units], gaps: Mapping[str, Units], row: str) -> bool | None:
    """Whether a row is still on the bag-of-words plateau.

    A row has left the plateau when its held-out loss is below that of `none` beyond noise, the rise
    of that loss when words are shuffled is above `LEAST_GAP` beyond noise, and it knows at least
    `LEAST_KNOWN` of the order that the best row knows. None where the row's gap was not measured,
    unless it knows too little order. Without a row `none` the gap alone decides.

    >>> losses = {"none": {0: 6.14, 1: 6.15}, "fixed": {0: 5.23, 1: 5.25}, "absolute": {0: 6.05, 1: 6.06}}
    >>> gaps = {"fixed": {0: 1.4, 1: 1.5}, "absolute": {0: 0.2, 1: 0.21}}
    >>> is_on_plateau(losses, gaps, "fixed"), is_on_plateau(losses, gaps, "absolute"), is_on_plateau(losses, {}, "fixed")
    (False, True, None)
    >>> is_on_plateau(losses | {"late": {0: 6.1}}, {}, "late")
    True
    >>> is_on_plateau({}, {"none": {0: 2.1}, "rope": {0: 2.4}}, "none")  # causal attention
    False

    Args:
        losses: held-out losses of the rows of one scale.
        gaps: their shuffle gaps.
    """
    fraction = order_known(losses, row)
    knows_little = fraction is not None and fraction < LEAST_KNOWN
    # A causal network knows order without position embeddings, so that `none` is no yardstick.
    none_has_order = bool(gaps.get(NONE)) and fmean(gaps[NONE].values()) > LEAST_GAP
    if not gaps.get(row):
        return True if row == NONE or (knows_little and not none_has_order) else None
    if _least(gaps, row) <= LEAST_GAP:
        return True
    if row == NONE or fraction is None or none_has_order:
        return False
    if tested := contrast(losses, {NONE: 1.0, row: -1.0}):
        is_ahead = tested.low > 0
    else:
        is_ahead = fmean(losses[NONE].values()) - fmean(losses[row].values()) > LEAD
    return not is_ahead or knows_little


def _least(gaps: Mapping[str, Units], row: str) -> float:
    """The lower end of the 95 % interval of a row's mean gap; the mean where no row has several
    pre-trainings."""
    # Rows that use no order have gaps of zero; their spread shows nothing about that of other rows.
    using = {
        name: units
        for name, units in gaps.items()
        if units and fmean(units.values()) > LEAST_GAP / 10
    }
    values = gaps[row].values()
    if pooled := spread(using, row):
        return _mean(values, pooled).low
    return fmean(values)


def _mean(values: Collection[float], pooled: Spread) -> Difference:
    """The mean of a row's units, with its error by the spread between pre-trainings."""
    return Difference(
        fmean(values),
        (pooled.variance / len(values)) ** 0.5,
        pooled.freedom,
        len(values),
    )


def order_found(curves: Mapping[str, Mapping[int, Curve]]) -> dict[str, Onset]:
    """Row → when it found order; empty without a row `none`. A row has not found order if one of
    its seeds has not.

    Between two evaluations the order known is read along a straight line over the logarithm of
    tokens.

    >>> none, late = {1: 6.0, 2: 6.0, 4: 6.0, 8: 6.0}, {1: 6.0, 2: 6.0, 4: 5.9, 8: 5.5}
    >>> order_found({"none": {0: none}, "fixed": {0: {1: 6.0, 2: 5.75, 4: 4.75, 8: 4.0}}, "absolute": {0: late}})["fixed"]
    Onset(tokens=3.363585661014858, low=2, high=4)
    >>> order_found({"none": {0: none}, "fixed": {0: {1: 5.0, 8: 4.0}}, "absolute": {0: late}})["absolute"]
    Onset(tokens=None, low=8, high=None)

    Args:
        curves: row → pre-training seed → loss along its training, until the learning rate falls, of
            the rows of one scale.
    """
    end = max(
        (at for units in curves.values() for curve in units.values() for at in curve), default=0
    )
    # A record may lack the last evaluation.
    whole = {
        row: {seed: curve for seed, curve in units.items() if end in curve}
        for row, units in curves.items()
    }
    at_end = {
        row: fmean(curve[end] for curve in units.values()) for row, units in whole.items() if units
    }
    if NONE not in at_end or (most := _all_order(at_end)) <= 0:
        return {}
    of_none = list(whole[NONE].values())
    half = {
        at: fmean(curve[at] for curve in of_none if at in curve) - HALF * most
        for at in set().union(*of_none)
    }
    onsets = {
        row: {seed: _crossing(curve, half) for seed, curve in whole[row].items()} for row in at_end
    }
    logs: dict[str, Units] = {}
    for row, units in onsets.items():
        of_row = {seed: math.log(onset.tokens) for seed, onset in units.items() if onset.tokens}
        if len(of_row) == len(units):
            logs[row] = of_row
    return {row: _over_seeds(list(units.values()), logs, row) for row, units in onsets.items()}


def _crossing(curve: Curve, half: Curve) -> Onset:
    """Where a training's losses first fall below those at which half of the order is known."""
    above = {at: curve[at] - half[at] for at in sorted(curve.keys() & half)}
    first, last = min(above), max(above)
    if above[first] <= 0:
        return Onset(first, 0, first)
    for before, after in pairwise(above):
        if above[after] <= 0:
            way = above[before] / (above[before] - above[after])
            return Onset(before * (after / before) ** way, before, after)
    return Onset(None, last, None)


def _over_seeds(onsets: list[Onset], logs: Mapping[str, Units], row: str) -> Onset:
    if row not in logs:
        return Onset(None, min(onset.low for onset in onsets if onset.tokens is None), None)
    if (spread_of_row := spread(logs, row)) is None:
        return onsets[0]
    around = _mean(logs[row].values(), spread_of_row)
    return Onset(*map(math.exp, (around.value, around.low, around.high)))
