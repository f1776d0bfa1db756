"""The result of a claim's test: a verdict, its figures and its p-value, and the scale at which it was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from relpos.tables.statistics import ALPHA, benjamini_hochberg, holm
from relpos.tables.verdict import FAILS, HOLDS, NOT_RUN, UNDECIDED

if TYPE_CHECKING:
    from relpos.claims.scales import Scales

__all__ = ["FAILS", "HOLDS", "NOT_RUN", "UNDECIDED", "Evidence", "Finding", "Test", "adjusted", "all_of", "headline"]

EXACT = "at any size"


@dataclass(frozen=True)
class Finding:
    """The verdict of one test at one scale.

    Args:
        verdict: holds, fails, undecided or not run.
        figures: the numbers that decide, or what is missing.
        scale: size, steps and data of the runs.
        p: two-sided p-value of the verdict; None without a statistical test: exact computations, counts, missing runs.
        takes: what it would take to decide an undecided claim.
    """

    verdict: str
    figures: str
    scale: str = EXACT
    p: float | None = None
    takes: str = ""


class Test(Protocol):
    """How a claim is tested: a class whose arguments are the keys under `test` in the claim's file."""

    @property
    def says(self) -> str:
        """What must be true for the claim to hold; one line."""

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows whose runs it needs."""

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each scale with runs of these rows; none where there are none."""


@dataclass(frozen=True)
class Evidence:
    """Two p-values, one for each direction; a p-value is 1 if the numbers point the other way.

    >>> Evidence(holds=0.01, fails=1.0).verdict
    'holds'

    Args:
        holds: p-value of the claim's opposite; if it is small, the claim holds.
        fails: p-value of the claim itself; if it is small, the claim fails.
    """

    holds: float
    fails: float

    @property
    def verdict(self) -> str:
        return HOLDS if self.holds < ALPHA else FAILS if self.fails < ALPHA else UNDECIDED

    @property
    def p(self) -> float:
        return min(self.holds, self.fails, 1.0)


def all_of(parts: Sequence[Evidence]) -> Evidence:
    """The evidence for a claim that says several things.

    It holds if all of them hold, so that the weakest p-value counts and no correction is due. It fails if one of them fails, after
    Holm's correction.

    >>> all_of([Evidence(0.01, 1.0), Evidence(0.03, 1.0)]).holds, all_of([Evidence(1.0, 0.04), Evidence(1.0, 0.9)]).fails
    (0.03, 0.08)
    """
    return Evidence(max(part.holds for part in parts), min(holm([part.fails for part in parts])))


def headline(findings: Sequence[Finding]) -> str:
    """The verdict of the largest scale that decides; if none does, undecided if something was tested, else not run.

    Args:
        findings: of one claim, in the order of `relpos.claims.reading`, the largest scale last.
    """
    verdicts = [finding.verdict for finding in findings]
    decisive = [verdict for verdict in verdicts if verdict in (HOLDS, FAILS)]
    return decisive[-1] if decisive else UNDECIDED if UNDECIDED in verdicts else NOT_RUN


def adjusted(findings: Sequence[Finding]) -> list[Finding]:
    """The findings of a page after Benjamini and Hochberg's correction: what is not significant among all of them is undecided."""
    p_values = [finding.p for finding in findings if finding.p is not None]
    corrected = iter(benjamini_hochberg(p_values))
    return [_among(finding, next(corrected), len(p_values)) if finding.p is not None else finding for finding in findings]


def _among(finding: Finding, p: float, tests: int) -> Finding:
    if finding.verdict not in (HOLDS, FAILS) or p < ALPHA:
        return finding
    note = f"p {finding.p:.2g} alone, {p:.2g} among the {tests} tests of this page, by which it {finding.verdict} no longer"
    takes = finding.takes or "more pre-training seeds, half as many again or more: it is clear alone and not among so many tests"
    return replace(finding, verdict=UNDECIDED, figures="; ".join(filter(None, [finding.figures, note])), takes=takes)


def joined(parts: Iterable[str]) -> str:
    """Figures and notes in one line, without the empty ones."""
    return "; ".join(filter(None, parts))
