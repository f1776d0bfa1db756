"""What a claim's test requires of the runs before it can decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SEVERAL = 2
"""The fewest pre-trainings of a row that show their spread."""


@dataclass(frozen=True)
class Requirements:
    """What a scale must have before a test can decide there.

    Args:
        seeds: pre-trainings of each row; for rows that fine-tune a network from a folder, fine-tunings.
        columns: of dev scores; empty: the test reads none.
        least: how many of these columns are needed.
        order: whether the shuffle gap must be measured.
        overrides: the rows must be trained with them.
        afterwards: what else must be done after the training.
    """

    seeds: int = 1
    columns: Sequence[str] = ()
    least: int = 0
    order: bool = False
    overrides: Sequence[str] = ()
    afterwards: str = ""
