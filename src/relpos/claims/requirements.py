"""What a test of a claim asks of runs that are not there yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from relpos.claims.scales import LOSS, ORDER
from relpos.tables.columns import GLUE

SEVERAL = 2
"""Pre-trainings of a row without which nothing is known of their spread."""


@dataclass(frozen=True)
class Requirements:
    """What there has to be at a scale before a test can come to a verdict there.

    Args:
        seeds: pre-trainings of each row; where a network was given, fine-tunings.
        columns: of dev scores; empty: the test reads none.
        least: how many of these columns there have to be.
        order: whether the shuffle gap has to be measured.
        words: that the rows have to be trained with.
        afterwards: what else is to be done, once they are.
    """

    seeds: int = 1
    columns: Sequence[str] = ()
    least: int = 0
    order: bool = False
    words: Sequence[str] = ()
    afterwards: str = ""


@runtime_checkable
class OfRuns(Protocol):
    """A test that says what it asks of runs; those that need none have nothing to say."""

    @property
    def requires(self) -> Requirements:
        """See there."""


def of_column(column: str, columns: Sequence[str] | None = None, every: bool = False) -> Requirements:
    """Of a test that compares rows in one column.

    Args:
        column: of GLUE, `glue`, `loss` or `order`.
        columns: those of which `glue` is the mean; None: all of GLUE's.
        every: whether a mean of fewer says nothing.

    >>> of_column("loss"), of_column("glue", ["cola", "rte"]).least
    (Requirements(seeds=2, columns=(), least=0, order=False, words=(), afterwards=''), 1)
    """
    if column in (LOSS, ORDER):
        return Requirements(SEVERAL, order=column == ORDER)
    names = (column,) if column in GLUE else tuple(columns or GLUE)
    return Requirements(SEVERAL, names, len(names) if every else 1)
