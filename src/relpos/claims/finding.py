"""What a test of a claim found: a verdict, its figures, and at which scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from relpos.tables.verdict import FAILS, HOLDS, NOT_RUN, UNDECIDED

if TYPE_CHECKING:
    from relpos.claims.scales import Scales

__all__ = ["FAILS", "HOLDS", "NOT_RUN", "UNDECIDED", "Finding", "Test", "Waits", "all_of", "decided"]

EXACT = "at any size"


@dataclass(frozen=True)
class Finding:
    """Args:
    verdict: holds, fails, undecided or not run.
    figures: the numbers that say so, or what is missing.
    scale: size, steps and data of the runs.
    """

    verdict: str
    figures: str
    scale: str = EXACT


class Test(Protocol):
    """How a claim is tested: a class whose arguments are the keys under `test` in the claim's file."""

    @property
    def says(self) -> str:
        """What has to be so for the claim to hold; one line."""

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows whose runs it needs."""

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each scale with runs of these rows; none where there are none."""


def decided(verdicts: Iterable[tuple[str, bool]], figures: Iterable[str], scale: str) -> Finding:
    """What these verdicts say together, each with whether its units are pre-trainings.

    Claims are about schemes, and two pre-trainings of one scheme differ by more than fine-tunings of one pre-training do: a
    difference over fine-tuning seeds of one pre-training each is that of two models and says nothing about their schemes. Such a
    holds or fails counts as undecided, and the figures say what it would be.
    """
    found = list(verdicts)
    would = all_of(verdict for verdict, _ in found)
    verdict = all_of(verdict if verdict == NOT_RUN or by_pretrainings else UNDECIDED for verdict, by_pretrainings in found)
    said = list(filter(None, figures))
    if verdict != would:
        said.append(f"by fine-tuning seeds of one pre-training each it would {_WOULD[would]}; needs two or more")
    return Finding(verdict, "; ".join(said), scale)


_WOULD = {HOLDS: "hold", FAILS: "fail"}


def all_of(verdicts: Iterable[str]) -> str:
    """A claim that says several things fails with one of them and holds with all."""
    found = list(verdicts)
    if FAILS in found:
        return FAILS
    return next((word for word in (NOT_RUN, UNDECIDED) if word in found), HOLDS if found else NOT_RUN)


@dataclass(frozen=True)
class Waits:
    """A claim that nothing here can test yet.

    Args:
        needs: what is missing.
        rows: whose runs it will need.
        rule: how it will be tested.
    """

    needs: str
    rule: str
    rows: Sequence[str] = ()

    @property
    def says(self) -> str:
        return self.rule

    def findings(self, scales: Scales) -> list[Finding]:
        return [Finding(NOT_RUN, f"needs {self.needs}", "—")]
