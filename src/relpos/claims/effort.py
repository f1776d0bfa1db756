"""What it would take to decide an undecided claim."""

from __future__ import annotations

from collections.abc import Sequence

from relpos.results.scale import Scale
from relpos.results.statistics import MOST, Difference, seeds_needed


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


def plural(number: int, what: str) -> str:
    """`1 model`, `2 models`"""
    return f"{number} {what}{'s' * (number != 1)}"
