"""Verdicts on a claim at one scale, the evidence behind them, and the base of all judgements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from relpos.results.plateau import NONE
from relpos.results.scale import Scale, Scales, short_travel
from relpos.results.statistics import (
    ALPHA,
    FAILS,
    HOLDS,
    NOT_HERE,
    NOT_RUN,
    UNDECIDED,
    Difference,
    benjamini_hochberg,
    holm,
)


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim at one scale.

    Args:
        verdict: holds, fails, undecided, cannot be said here, or not run.
        figures: the numbers that decide, or a note about missing ones.
        scale: size, steps and data of the runs; the judgement fills it in.
        p: two-sided p-value; None without a statistical test: computations, counts, missing runs.
        takes: the runs that would decide an undecided claim.
        on_plateau: the compared rows that are on the bag-of-words plateau, without `none`.
        is_aside: whether it comes from a protocol that is not the paper's.
    """

    verdict: str
    figures: str
    scale: str = ""
    p: float | None = None
    takes: str = ""
    on_plateau: tuple[str, ...] = ()
    is_aside: bool = False

    @property
    def word(self) -> str:
        """`holds, absolute on the plateau`"""
        if not self.on_plateau or self.verdict not in (HOLDS, FAILS):
            return self.verdict
        return f"{self.verdict}, {' and '.join(self.on_plateau)} on the plateau"


@dataclass(frozen=True)
class Evidence:
    """Two p-values: a small `holds` speaks against the claim's opposite, a small `fails` against
    the claim. A p-value is 1 if the numbers point the other way.

    >>> Evidence(holds=0.01, fails=1.0).verdict
    'holds'
    """

    holds: float
    fails: float

    @property
    def verdict(self) -> str:
        if self.holds < ALPHA:
            return HOLDS
        if self.fails < ALPHA:
            return FAILS
        return UNDECIDED

    @property
    def p(self) -> float:
        return min(self.holds, self.fails, 1.0)


def above(tested: Difference, bound: float = 0.0) -> Evidence:
    """The evidence for a difference above a bound.

    With a positive bound smaller differences count as none: the claim then holds by the distance
    from zero, and fails by that from the bound.

    >>> above(Difference(1.0, error=0.1, freedom=8.0, n=5)).verdict
    'holds'
    """
    least = min(bound, 0.0)
    # Two-sided although a claim has a direction, since it may fail as well as hold.
    if tested.value < bound:
        return Evidence(1.0, tested.p_against(bound))
    if tested.value > least:
        return Evidence(tested.p_against(least), 1.0)
    return Evidence(1.0, 1.0)


def below(tested: Difference, bound: float) -> Evidence:
    """The evidence for a difference below a bound."""
    p = tested.p_against(bound)
    if tested.value < bound:
        return Evidence(p, 1.0)
    return Evidence(1.0, p)


def all_of(parts: Sequence[Evidence]) -> Evidence:
    """The evidence for a claim with several parts.

    It holds if all of them hold: the weakest p-value counts, and no correction is due. It fails if
    one of them fails, after Holm's correction.

    >>> all_of([Evidence(0.01, 0.04), Evidence(0.03, 0.9)])
    Evidence(holds=0.03, fails=0.08)
    """
    fails = min(holm([part.fails for part in parts]))
    return Evidence(max(part.holds for part in parts), fails)


def headline(verdicts: Sequence[Verdict], of_paper: bool = True) -> Verdict:
    """The verdict of the largest scale at which the claim was run, decided or not.

    Only scales of the papers' protocol count. A claim that is not of a paper, such as one about
    decoders, may also be decided by others. The largest scale comes last.

    Args:
        of_paper: whether the claim is one of a paper.
    """
    run = [verdict for verdict in verdicts if verdict.verdict != NOT_RUN]
    counted = [verdict for verdict in run if not verdict.is_aside]
    if not of_paper:
        counted = counted or run
    return (counted or [Verdict(NOT_RUN, "")])[-1]


def adjusted(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """All verdicts of a paper in one measure, after Benjamini and Hochberg's correction.

    A verdict that is not significant becomes undecided. A family is the claims of one paper, in one
    measure, at one scale. So a verdict changes neither with the claims that are shown, nor with the
    records of other scales.
    """
    corrected = list(verdicts)
    for scale in {verdict.scale for verdict in verdicts}:
        # Undecided verdicts count among the tests: without them the correction would be too small.
        alone = {
            place: verdict.p
            for place, verdict in enumerate(verdicts)
            if verdict.scale == scale and verdict.p is not None
        }
        for place, p in zip(alone, benjamini_hochberg([*alone.values()]), strict=True):
            verdict = verdicts[place]
            if p >= ALPHA and verdict.verdict in (HOLDS, FAILS):
                note = f"by itself it {verdict.verdict} with p {verdict.p:.2g}; p {p:.2g} among the"
                note += f" {len(alone)} of the paper here leaves it undecided"
                corrected[place] = replace(
                    verdict,
                    verdict=UNDECIDED,
                    figures=joined([verdict.figures, note]),
                    takes="half as many pre-training seeds again or more",
                )
    return corrected


def joined(parts: Iterable[str]) -> str:
    """Figures and notes in one line, without the empty ones."""
    return "; ".join(filter(None, parts))


@dataclass(frozen=True)
class Judgement:
    """The test of a claim, which is data: the keys under `test` are the fields of the class that
    `rule` names."""

    @property
    def says(self) -> str:
        """The condition under which the claim holds, in one line."""
        raise NotImplementedError

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows whose runs the judgement needs."""
        return ()

    def in_nats(self, measure: str, bound: float) -> Judgement | None:
        """The same judgement in `loss` (held-out loss) or `order` (shuffle gap); None if it does
        not compare rows. Differences below `bound`, in nats, count as none."""
        return None

    def judge(self, scale: Scale) -> Verdict | None:
        """The verdict at one scale; None where the scale shows nothing about the claim."""
        raise NotImplementedError

    def verdicts(self, runs: Scales) -> list[Verdict]:
        """A verdict for each scale that shows something about the claim, the largest last."""
        verdicts = []
        for scale in runs:
            if not (verdict := self.judge(scale)):
                continue
            # Parameters that could not move far may alone make rows differ; `none` has none.
            moved = [scale.travels.get(row) for row in self.rows if row != NONE]
            slow = "" if verdict.verdict == NOT_RUN else short_travel(moved)
            is_open = verdict.verdict in (UNDECIDED, NOT_HERE)
            verdict = replace(
                verdict,
                figures=joined([verdict.figures, slow]),
                scale=scale.label,
                takes=verdict.takes if is_open else "",
                is_aside=not scale.is_of_paper,
            )
            verdicts.append(verdict)
        return verdicts
