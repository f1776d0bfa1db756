"""Contrasts: differences of pairs of rows in a column, over pre-training seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import copysign

from relpos.claims.verdict import Evidence, Judgement, Verdict, above, all_of, below, joined
from relpos.errors import RelposError, refuse_unknown
from relpos.results.gain import Contrast, gain, mean_gain
from relpos.results.plateau import NONE
from relpos.results.scale import MEAN, Scale
from relpos.results.statistics import (
    FAILS,
    MOST,
    NOT_HERE,
    NOT_RUN,
    UNDECIDED,
    Difference,
    seeds_needed,
)
from relpos.results.values import GLUE


@dataclass(frozen=True)
class Contrasts(Judgement):
    """Differences of rows lie above a bound, below one, or between two.

    Holds: the 95 % interval of each difference lies on the right side of the bounds; all must, so
    that no correction is due. Fails: one lies on the wrong side, by a two-sided test at 0.05 with
    Holm's correction.

    Args:
        contrasts: pairs of rows, `[first, second]`, whose differences decide.
        above: the lower bound of first − second.
        below: the upper bound.
        over: `seeds`: each difference decides; `rows`: their mean.
        column: a column of GLUE, or `glue`: the mean of the nine, or of those that both rows have;
            in nats `loss` or `order`.
        columns: the columns of that mean, if the claim is about fewer; None: all of GLUE's.
        beside: further pairs whose figures are shown; they do not decide.
    """

    contrasts: Sequence[Contrast]
    above: float | None = None
    below: float | None = None
    over: str = "seeds"
    column: str = MEAN
    columns: Sequence[str] | None = None
    beside: Sequence[Contrast] = ()

    def __post_init__(self) -> None:
        refuse_unknown("over: unknown", self.over, ("seeds", "rows"))
        if self.above is None and self.below is None:
            raise RelposError("needs above or below, the bound of the differences: above: 0")

    @property
    def says(self) -> str:
        bounds = {"above": self.above, "below": self.below}
        limits = [f"{side} {at or 'zero'}" for side, at in bounds.items() if at is not None]
        whose = "the mean of these differences" if self.over == "rows" else "each difference"
        return f"{whose} {' and '.join(limits)}: {', '.join(map(str, self.contrasts))}"

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row for pair in self.contrasts for row in pair))

    def in_nats(self, measure: str, bound: float) -> Contrasts:
        least = None if self.above is None else copysign(bound, self.above)
        most = None if self.below is None else bound
        return replace(self, column=measure, columns=None, above=least, below=most)

    def judge(self, scale: Scale) -> Verdict | None:
        """The verdict at a scale: `NOT_HERE` if both rows of a pair are on the plateau.

        If one of them is, the verdict lists it in `on_plateau`.
        """
        verdict = self.compared(scale)
        if verdict is None or verdict.verdict == NOT_RUN:
            return verdict
        on_it = [row for row in self.rows if scale.is_on_plateau(row)]
        rows_on = tuple(row for row in on_it if row != NONE)
        pairs_on = [pair for pair in self.contrasts if {*pair} <= {*on_it}]
        if not pairs_on:
            return replace(verdict, on_plateau=rows_on)
        pairs_off = [pair for pair in self.contrasts if pair not in pairs_on]
        if pairs_off and self.over == "seeds":
            # Pairs off the plateau may refute the claim; only all pairs could confirm it.
            off_verdict = replace(self, contrasts=pairs_off).compared(scale)
            if off_verdict and off_verdict.verdict == FAILS:
                return replace(off_verdict, figures=verdict.figures, on_plateau=rows_on)
        why = f"both rows of {', '.join(map(str, pairs_on))} are on the bag-of-words plateau"
        takes = "longer training, until one of them has left the plateau"
        return Verdict(NOT_HERE, joined([verdict.figures, why]), takes=takes)

    def compared(self, scale: Scale) -> Verdict | None:
        """The verdict by the differences alone."""
        pairs = (*self.contrasts, *self.beside)
        shown = [gain(scale, pair, self.column, self.columns) for pair in pairs]
        gains = judged = shown[: len(self.contrasts)]
        if not any(gains):
            return None
        figures = [single.text for single in shown if single]
        if missing := [row for row in self.rows if not scale.values.get(row)]:
            figures.append(f"no scores of {', '.join(missing)}")
        if self.over == "rows":
            judged = [mean_gain(scale, self.contrasts, self.column, self.columns)]
            figures += [mean.text for mean in judged if mean]
        # Half a point of the mean of nine columns means more than half a point of two.
        count, too_few = len(self.columns or GLUE), ""
        is_whole = all(len(single.columns) == count for single in gains if single)
        if self.column == MEAN and (self.above or self.below) and not is_whole:
            too_few = (
                f"the bound is for the mean of {count} columns, of which some are missing here"
            )
        tested = [single.tested for single in judged if single and single.tested]
        # One contrast is enough for the claim to fail, even if others are missing.
        whole = all_of(list(map(self.evidence, tested))) if tested else Evidence(1.0, 1.0)
        if whole.verdict == FAILS and not too_few:
            return Verdict(FAILS, joined(figures), p=whole.p)
        if too_few or not all(single and single.columns for single in (*gains, *judged)):
            return Verdict(NOT_RUN, joined([*figures, too_few]))
        if len(tested) < len(judged):
            takes = "two pre-training seeds or more of some row of this scale"
            return Verdict(UNDECIDED, joined(figures), takes=takes)
        # The difference that needs most seeds counts: it is the last to be decided.
        seeds = max(map(seeds_needed, tested))
        takes = f"about {seeds} {scale.units} of each row"
        if seeds >= MOST:
            takes = "the differences are too small to be found at this scale"
        return Verdict(whole.verdict, joined(figures), p=whole.p, takes=takes)

    def evidence(self, tested: Difference) -> Evidence:
        """The evidence of one difference for the claim."""
        sides = []
        if self.above is not None:
            sides.append(above(tested, self.above))
        if self.below is not None:
            sides.append(below(tested, self.below))
        return all_of(sides)
