"""The result of a claim's test: the evidence of its numbers, the verdict at one scale, and what it would take to decide it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from relpos.errors import plural
from relpos.results.scale import Scale
from relpos.results.statistics import ALPHA, FAILS, HOLDS, MOST, NOT_HERE, NOT_RUN, UNDECIDED, Difference, benjamini_hochberg, holm

EXACT = "at any size"
SEVERAL = 2
"""The fewest pre-trainings of a row that show their spread."""


@dataclass(frozen=True)
class Verdict:
    """The verdict of one test at one scale.

    Args:
        verdict: holds, fails, undecided, cannot be said here, or not run.
        figures: the numbers that decide, or what is missing.
        scale: size, steps and data of the runs; the runner fills it in.
        p: two-sided p-value of the verdict; None without a statistical test: exact computations, counts, missing runs.
        takes: what it would take to decide an undecided claim.
        is_aside: whether it comes from a protocol that is not the paper's; the runner fills it in.
        on_plateau: the rows compared that are on the bag-of-words plateau, `none` apart; the runner fills it in.
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
        rows = " and ".join(self.on_plateau)
        return f"{self.verdict}, {rows} on the plateau" if rows and self.verdict in (HOLDS, FAILS) else self.verdict


@dataclass(frozen=True)
class Evidence:
    """Two p-values: if that of the claim's opposite is small, the claim `holds`; if that of the claim itself is, it `fails`.

    A p-value is 1 if the numbers point the other way.

    >>> Evidence(holds=0.01, fails=1.0).verdict
    'holds'
    """

    holds: float
    fails: float

    @property
    def verdict(self) -> str:
        return HOLDS if self.holds < ALPHA else FAILS if self.fails < ALPHA else UNDECIDED

    @property
    def p(self) -> float:
        return min(self.holds, self.fails, 1.0)


def sided(tested: Difference, bound: float = 0.0) -> Evidence:
    """The evidence for a difference above zero, and no smaller than a bound.

    It holds by its distance from zero, and fails by its distance from the bound: a difference that is clearly above zero and not
    clearly below the bound does not fail.

    >>> sided(Difference(1.0, error=0.1, freedom=8.0, n=5)).verdict, sided(Difference(-1.0, error=0.1, freedom=8.0, n=5)).verdict
    ('holds', 'fails')
    """
    # Two-sided although a claim has a direction, since it may fail as well as hold: 0.05 are for both.
    holds = tested.p if tested.value > 0 and tested.value >= bound else 1.0
    return Evidence(holds, tested.p_against(bound) if tested.value < bound else 1.0)


def below(tested: Difference, bound: float) -> Evidence:
    """The evidence for a difference below a bound."""
    p = tested.p_against(bound)
    return Evidence(p, 1.0) if tested.value < bound else Evidence(1.0, p)


def all_of(parts: Sequence[Evidence]) -> Evidence:
    """The evidence for a claim that says several things.

    It holds if all of them hold, so that the weakest p-value counts and no correction is due. It fails if one of them fails, after
    Holm's correction.

    >>> all_of([Evidence(0.01, 1.0), Evidence(0.03, 1.0)]).holds, all_of([Evidence(1.0, 0.04), Evidence(1.0, 0.9)]).fails
    (0.03, 0.08)
    """
    return Evidence(max(part.holds for part in parts), min(holm([part.fails for part in parts])))


def headline(verdicts: Sequence[Verdict], of_paper: bool = True) -> Verdict:
    """The verdict of the largest scale at which the claim was run, decided or not; smaller ones stand behind it.

    Only scales of the papers' protocol count; of a claim that is none `of_paper`, the others where it was run at these alone, such
    as a claim about decoders. The verdicts are those of one claim, the largest scale last.
    """
    run = [each for each in verdicts if each.verdict in (HOLDS, FAILS, UNDECIDED, NOT_HERE)]
    counted = [each for each in run if not each.is_aside] or ([] if of_paper else run)
    return counted[-1] if counted else Verdict(NOT_RUN, "")


def adjusted(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """All verdicts of a paper in one measure, after Benjamini and Hochberg's correction: what is not significant is undecided.

    A family is what one paper claims, in one measure, at one scale. So a verdict changes neither with the claims that are asked
    for, nor with the records of other scales.
    """
    corrected = list(verdicts)
    for scale in {each.scale for each in verdicts}:
        # Verdicts without a p-value, as of counts and computations, are certain and need no correction. What is undecided has one,
        # and counts among the tests: leaving it out would make the correction too small.
        alone = {place: each.p for place, each in enumerate(verdicts) if each.scale == scale and each.p is not None}
        for place, p in zip(alone, benjamini_hochberg(list(alone.values())), strict=True):
            found = verdicts[place]
            if p >= ALPHA and found.verdict in (HOLDS, FAILS):
                note = f"by itself it {found.verdict} with p {alone[place]:.2g}; p {p:.2g} among the {len(alone)} of the paper here"
                takes = "more pre-training seeds, half as many again or more: it is clear alone and not among so many tests"
                figures = joined([found.figures, f"{note} leaves it undecided"])
                corrected[place] = replace(found, verdict=UNDECIDED, figures=figures, takes=found.takes or takes)
    return corrected


def joined(parts: Iterable[str]) -> str:
    """Figures and notes in one line, without the empty ones."""
    return "; ".join(filter(None, parts))


def more_seeds(scale: Scale, row: str = "", count: int = SEVERAL, how: str = "") -> str:
    """How many seeds of each row, or more pre-trainings of one, are needed to have `count` at this scale; `how` if that matters."""
    if count >= MOST:
        return "the differences are too small to be found at this scale"
    # At least one, since what is there has left the claim undecided.
    missing = max(1, count - len(scale.folders.get(row, {})))
    return (
        f"{plural(missing, 'more pre-training seed')} of {row} at this scale{how}"
        if row
        else f"about {count} {scale.units} of each row"
    )


def longer(scale: Scale) -> str:
    """Training for twice the steps: for a value that lies between two bounds, where more seeds would leave it."""
    return f"longer training and not more seeds, for instance steps={2 * scale.meaning.get('steps', 0)}"
