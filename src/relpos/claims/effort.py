"""What it would take to decide an undecided claim."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from relpos.results.scale import Scale
from relpos.results.statistics import Difference
from relpos.tables.verdict import POWER, WIDE

MOST = 1_000
"""A difference that needs so many pre-training seeds is called too small to be found."""
QUANTILES = WIDE + POWER
"""A difference of so many standard errors is found at 0.05 with probability 0.8."""


def to_decide(scale: Scale, tested: Sequence[Difference], against: float = 0.0, of_row: str | None = None) -> str:
    """How many seeds would find differences as large as these with probability 0.8.

    Args:
        scale: where they were found.
        tested: the differences that a claim needs.
        against: the value that they must differ from.
        of_row: the row, if they concern one row alone.
    """
    # Of the difference that needs most: the claim is decided when the last of them is.
    seeds = max((seeds_needed(each, against) for each in tested), default=MOST)
    if seeds >= MOST:
        return "the differences are too small to be found at this scale"
    if of_row is not None:
        return models(scale, of_row, seeds)
    return f"about {seeds} {scale.units} of each row"


def models(scale: Scale, row: str, count: int, how: str = "") -> str:
    """How many more pre-trainings of a row are needed to have `count` at this scale, `how` if that matters."""
    if not scale.can_go_on:
        return ""
    if count >= MOST:
        return "the effect is too small to be found at this scale"
    # At least one, since what is there has left the claim undecided.
    missing = max(1, count - len(scale.folders.get(row, {})))
    seeds = f"{plural(missing, 'more pre-training seed')} of {row} at this scale"
    return " ".join(filter(None, [seeds, how]))


def longer(scale: Scale) -> str:
    """Training for twice the steps: for a value that lies between two bounds, where more seeds would leave it."""
    if not scale.can_go_on:
        return ""
    steps = f"steps={2 * scale.meaning['steps']}"
    return f"longer training and not more seeds, for instance {steps}"


def trials(share: float, chance: float, tried: int) -> float:
    """How many times `tried` trials find this share above chance with probability 0.8 (one-sided binomial test at 0.05).

    >>> round(trials(0.6, 0.5, tried=76), 1)
    2.0
    """
    if share <= chance:
        return float(MOST)
    # 1.645 and 0.842: normal quantiles of 0.95, one-sided, and of the power 0.8.
    needed = ((1.645 * (chance * (1 - chance)) ** 0.5 + 0.842 * (share * (1 - share)) ** 0.5) / (share - chance)) ** 2
    return needed / tried


def plural(number: int, what: str) -> str:
    """`1 model`, `2 models`"""
    return f"{number} {what}{'s' * (number != 1)}"


def seeds_needed(tested: Difference, against: float = 0.0) -> int:
    """Pre-trainings of each row with which a two-sided t-test at 0.05 finds this difference with probability 0.8; `MOST` at most.

    By the normal approximation, plus one seed for the t-distribution.

    >>> seeds_needed(Difference(1.0, error=0.5, freedom=8.0, n=5)), seeds_needed(Difference(0.0, error=0.5, freedom=8.0, n=5))
    (11, 1000)
    """
    # The error of a difference of two means of n each is σ·√(2/n).
    spread = tested.error * (tested.n / 2) ** 0.5
    effect = abs(tested.value - against) / spread if spread else 0.0
    if effect < (2 * QUANTILES**2 / MOST) ** 0.5:
        return MOST
    # One more: the normal approximation forgets that the spread is estimated, too.
    return max(2, ceil(2 * (QUANTILES / effect) ** 2 + 1))
