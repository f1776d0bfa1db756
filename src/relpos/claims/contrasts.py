"""Contrasts: differences of pairs of rows in a column, over pre-training seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from relpos.claims.judgement import Judgement
from relpos.claims.verdict import Evidence, Verdict, above, all_of, below, joined
from relpos.errors import RelposError, refuse_unknown
from relpos.results.gain import Contrast, Gain, gain, mean_gain
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

SEVERAL_SEEDS = "two pre-training seeds or more of some row of this scale"


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
        asked = [f"{side} {at or 'zero'}" for side, at in bounds.items() if at is not None]
        whose = "the mean of these differences" if self.over == "rows" else "each difference"
        return f"{whose} {' and '.join(asked)}: {', '.join(map(str, self.contrasts))}"

    @property
    def rows(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row for pair in self.contrasts for row in pair))

    def in_nats(self, measure: str, bound: float) -> Contrasts:
        lower, upper = self.above, self.below
        if lower is not None:
            lower = bound if lower >= 0 else -bound
        if upper is not None:
            upper = bound
        return replace(self, column=measure, columns=None, above=lower, below=upper)

    def judge(self, scale: Scale) -> Verdict | None:
        """The verdict, where rows on the plateau do not forbid it: of two rows that are both on it
        nothing can be said; one that is, is named."""
        found = self.compared(scale)
        if found is None or found.verdict == NOT_RUN:
            return found
        on_it = [row for row in self.rows if scale.is_on_plateau(row)]
        others = [pair for pair in self.contrasts if not {*pair} <= {*on_it}]
        named = tuple(row for row in on_it if row != NONE)
        if len(others) == len(self.contrasts):
            return replace(found, on_plateau=named)
        if others and self.over == "seeds":
            # Pairs off the plateau may refute the claim; to bear it out all would be needed.
            rest = replace(self, contrasts=others).compared(scale)
            if rest and rest.verdict == FAILS:
                return replace(rest, figures=found.figures, on_plateau=named)
        mute = ", ".join(str(pair) for pair in self.contrasts if pair not in others)
        why = f"both rows of {mute} are on the bag-of-words plateau"
        takes = "longer training, until one of them has left the plateau"
        return Verdict(NOT_HERE, joined([found.figures, why]), takes=takes)

    def compared(self, scale: Scale) -> Verdict | None:
        """The verdict by the differences alone."""
        gains = [self._gain(scale, pair) for pair in self.contrasts]
        if not any(gains):
            return None
        figures, judged = self._figures(scale, gains), gains
        if self.over == "rows":
            mean = mean_gain(scale, self.contrasts, self.column, self.columns)
            judged = [mean]
            figures.append(mean.text if mean else "")
        too_few = self._too_few(gains)
        evidence = [self.evidence(each.tested) for each in judged if each and each.tested]
        # One contrast is enough for the claim to fail, whatever others are missing.
        if evidence and not too_few and all_of(evidence).verdict == FAILS:
            return Verdict(FAILS, joined(figures), p=all_of(evidence).p)
        if too_few or not all(each and each.columns for each in (*gains, *judged)):
            return Verdict(NOT_RUN, joined([*figures, too_few]))
        tested = [each.tested for each in judged if each and each.tested]
        if len(tested) < len(judged):
            return Verdict(UNDECIDED, joined(figures), takes=SEVERAL_SEEDS)
        whole = all_of(evidence)
        # Of the difference that needs most: the claim is decided when the last of them is.
        count = max(map(seeds_needed, tested))
        takes = f"about {count} {scale.units} of each row"
        if count >= MOST:
            takes = "the differences are too small to be found at this scale"
        return Verdict(whole.verdict, joined(figures), p=whole.p, takes=takes)

    def evidence(self, tested: Difference) -> Evidence:
        """What one difference says of the claim."""
        sides = []
        if self.above is not None:
            sides.append(above(tested, self.above))
        if self.below is not None:
            sides.append(below(tested, self.below))
        return all_of(sides)

    def _gain(self, scale: Scale, pair: Contrast) -> Gain | None:
        return gain(scale, pair, self.column, self.columns)

    def _figures(self, scale: Scale, gains: Iterable[Gain | None]) -> list[str]:
        """The gains, what is shown beside them, and which rows have no scores."""
        beside = [self._gain(scale, pair) for pair in self.beside]
        missing = [row for row in self.rows if not scale.values.get(row)]
        said = [each.text for each in (*gains, *beside) if each]
        return said + [f"no scores of {', '.join(missing)}"] * bool(missing)

    def _too_few(self, gains: Iterable[Gain | None]) -> str:
        """Why a bound in points cannot be applied; empty where it can."""
        # Half a point of the mean of nine columns is another thing than half a point of two.
        wanted = len(self.columns or GLUE)
        is_whole = all(len(each.columns) == wanted for each in gains if each)
        if is_whole or self.column != MEAN or not (self.above or self.below):
            return ""
        return f"the bound is for the mean of {wanted} columns, of which some are missing here"
