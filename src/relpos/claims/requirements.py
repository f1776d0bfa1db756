"""What a claim's test requires of the runs before it can decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relpos.claims.scales import LOSS, ORDER
from relpos.tables.columns import GLUE

if TYPE_CHECKING:
    from relpos.claims.rule import Test

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


def of_column(test: Test, every: bool = False) -> Requirements:
    """The requirements of a test that compares rows in its column, or in the mean of its columns, of which some need `every` one.

    >>> from relpos.claims.comparisons import higher
    >>> of_column(higher(column="loss")), of_column(higher(columns=["cola", "rte"])).least
    (Requirements(seeds=2, columns=(), least=0, order=False, overrides=(), afterwards=''), 1)
    """
    if test.column in (LOSS, ORDER):
        return Requirements(SEVERAL, order=test.column == ORDER)
    names = (test.column,) if test.column in GLUE else tuple(test.columns or GLUE)
    return Requirements(SEVERAL, names, len(names) if every else 1)
