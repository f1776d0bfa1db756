"""Tests of claims that compare rows of one scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from relpos.claims.effort import to_decide
from relpos.claims.finding import FAILS, NOT_RUN, UNDECIDED, Evidence, Finding, all_of, joined
from relpos.claims.gains import MEAN, Gain, gain, mean_gain
from relpos.claims.requirements import Requirements, of_column
from relpos.claims.scales import Scale, Scales
from relpos.tables.columns import GLUE
from relpos.tables.statistics import ALPHA, Difference, holm

Pair = Sequence[str]
SEVERAL_SEEDS = "two pre-training seeds or more of some row of this scale"


@dataclass(frozen=True)
class Comparison:
    """Compares pairs of rows, each `[first, second]`, in one column.

    Args:
        pairs: the pairs that decide.
        column: a column of GLUE, or `glue`: the mean of the nine, or of those that both rows have; in twins `loss` or `order`.
        columns: the columns of that mean, if the claim is about fewer; None: all of GLUE's.
        apart: further columns whose figures are shown; they do not decide.
        beside: further pairs whose figures are shown; they do not decide.
        note: how these runs differ from the paper's.
    """

    pairs: Sequence[Pair]
    column: str = MEAN
    columns: Sequence[str] | None = None
    apart: Sequence[str] = ()
    beside: Sequence[Pair] = ()
    note: str = ""

    @property
    def says(self) -> str:
        """The rule, in one line."""
        raise NotImplementedError

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows of all pairs, each once."""
        return tuple(dict.fromkeys(row for pair in self.pairs for row in pair))

    @property
    def has_bound(self) -> bool:
        """Whether the rule has a bound in points; such a bound applies to the mean of all columns only."""
        return False

    @property
    def requires(self) -> Requirements:
        """Several pre-trainings, with dev scores or the measure of a twin."""
        return of_column(self.column, self.columns, every=self.has_bound)

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each scale in which both rows of some pair have a score."""
        return [self.at(scale) for scale in scales if any(self._gain(scale, pair) for pair in self.pairs)]

    def at(self, scale: Scale) -> Finding:
        """The verdict at one scale."""
        gains = [self._gain(scale, pair) for pair in self.pairs]
        known = [each for each in gains if each is not None]
        missing = [row for row in self.rows if not scale.scores.get(row)]
        figures = [each.said for each in known]
        figures += [each.said for name in self.apart for pair in self.pairs if (each := gain(scale, pair[0], pair[1], name))]
        figures += [each.said for pair in self.beside if (each := self._gain(scale, pair))]
        figures += [f"no scores of {', '.join(missing)}"] if missing else []
        too_few = self._too_few(known)
        parts = [self.judge(each.tested) for each in known if each.tested and not too_few]
        evidence = all_of(parts) if parts else None
        if evidence and evidence.verdict == FAILS:
            return Finding(FAILS, joined([*figures, self.note]), scale.label, evidence.p)
        if too_few or any(each is None or not each.columns for each in gains):
            return Finding(NOT_RUN, joined([*figures, too_few, self.note]), scale.label)
        if evidence is None or len(parts) < len(gains):
            return Finding(UNDECIDED, joined([*figures, self.note]), scale.label, takes=SEVERAL_SEEDS)
        takes = to_decide(scale, [each.tested for each in known if each.tested]) if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, joined([*figures, self.note]), scale.label, evidence.p, takes)

    def judge(self, tested: Difference) -> Evidence:
        """The evidence that one pair's difference gives."""
        raise NotImplementedError

    def twin(self, measure: str, bound: float) -> Comparison:
        """The same rows in held-out loss or shuffle gap; differences below `bound` nats count as none."""
        return Higher(self.pairs, measure, beside=self.beside, note=self.note, bound=bound)

    def _gain(self, scale: Scale, pair: Pair) -> Gain | None:
        return gain(scale, pair[0], pair[1], self.column, self.columns)

    def _too_few(self, gains: Sequence[Gain]) -> str:
        """Why the bound cannot be applied; empty where it can."""
        wanted = list(self.columns or GLUE)
        if not self.has_bound or self.column != MEAN or all(len(each.columns) == len(wanted) for each in gains):
            return ""
        return f"the bound is one of the mean of {len(wanted)} columns, and not all of them tell these rows apart here"


@dataclass(frozen=True)
class Higher(Comparison):
    """Every first row is above its second one.

    Holds: the 95 % interval of each difference lies above zero (all must, so that no correction is due). Fails: one lies below,
    by a two-sided test at 0.05 with Holm's correction. With a `bound`, smaller differences count as none: to hold, each difference
    must be that large, too; and the claim fails if one is clearly smaller.
    """

    bound: float = 0.0

    @property
    def says(self) -> str:
        large = f" and {self.bound} or more" if self.bound else ""
        return f"each difference above zero{large}: {_said(self.pairs)}"

    def judge(self, tested: Difference) -> Evidence:
        holds = tested.p if tested.value > 0 and tested.value >= self.bound else 1.0
        return Evidence(holds, tested.p_against(self.bound) if tested.value < self.bound else 1.0)


@dataclass(frozen=True)
class HigherOnAverage(Comparison):
    """The first rows are above their second ones on average, and none is clearly below.

    Holds: the 95 % interval of the mean difference lies above zero, and no pair's lies below, by Holm's correction. Fails: that of
    the mean or of a pair lies below, by Holm's correction.
    """

    @property
    def says(self) -> str:
        return f"the mean of these differences above zero, none clearly below: {_said(self.pairs)}"

    def at(self, scale: Scale) -> Finding:
        """The verdict at one scale."""
        gains = [self._gain(scale, pair) for pair in self.pairs]
        mean = mean_gain(scale, [(first, second) for first, second in self.pairs], self.column, self.columns)
        tested = [each.tested for each in gains if each and each.tested]
        missing = [row for row in self.rows if not scale.scores.get(row)]
        figures = [each.said for each in (*gains, mean) if each]
        figures += [f"no scores of {', '.join(missing)}"] if missing else []
        if mean is None or any(each is None or not each.columns for each in gains):
            return Finding(NOT_RUN, joined([*figures, self.note]), scale.label)
        if mean.tested is None or len(tested) < len(gains):
            return Finding(UNDECIDED, joined([*figures, self.note]), scale.label, takes=SEVERAL_SEEDS)
        evidence = mean_without_loss(mean.tested, tested)
        takes = to_decide(scale, [mean.tested]) if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, joined([*figures, self.note]), scale.label, evidence.p, takes)


def mean_without_loss(mean: Difference, parts: Sequence[Difference]) -> Evidence:
    """The evidence for a claim that a mean lies above zero and none of its parts clearly below."""
    losses = [each.p if each.value < 0 else 1.0 for each in parts]
    is_clear_loss = min(holm(losses)) < ALPHA
    holds = mean.p if mean.value > 0 and not is_clear_loss else 1.0
    of_mean = Evidence(holds, mean.p if mean.value < 0 else 1.0)
    return Evidence(holds, all_of([of_mean, *(Evidence(1.0, loss) for loss in losses)]).fails)


@dataclass(frozen=True)
class NotHigher(Comparison):
    """No first row is above its second one by as much as `bound`.

    Holds: the upper end of the 95 % interval lies below the bound. Fails: the interval lies above zero and reaches the bound; with
    `any_gain` the claim fails whenever the interval lies above zero, however small the gain. A bound in points of GLUE is not
    applied to the mean of fewer columns.
    """

    bound: float = 0.5
    any_gain: bool = False

    @property
    def says(self) -> str:
        clear = ", nor a clear one above zero" if self.any_gain else ""
        return f"no gain of {self.bound} or more{clear}: {_said(self.pairs)}"

    @property
    def has_bound(self) -> bool:
        return True

    def judge(self, tested: Difference) -> Evidence:
        return _not_higher(tested, self.bound, self.any_gain)

    def twin(self, measure: str, bound: float) -> Comparison:
        """The same rows in held-out loss or shuffle gap."""
        return NotHigher(self.pairs, measure, beside=self.beside, note=self.note, bound=bound)


@dataclass(frozen=True)
class NotLower(Comparison):
    """No first row is below its second one by as much as `bound`: `NotHigher` the other way round."""

    bound: float = 0.5

    @property
    def says(self) -> str:
        return f"no loss of {self.bound} or more: {_said(self.pairs)}"

    @property
    def has_bound(self) -> bool:
        return True

    def judge(self, tested: Difference) -> Evidence:
        return _not_higher(replace(tested, value=-tested.value), self.bound)

    def twin(self, measure: str, bound: float) -> Comparison:
        """The same rows in held-out loss or shuffle gap."""
        return NotLower(self.pairs, measure, beside=self.beside, note=self.note, bound=bound)


def _not_higher(tested: Difference, bound: float, any_gain: bool = False) -> Evidence:
    gains = tested.value > 0 and tested.p < ALPHA
    below = tested.p_against(bound) if tested.value < bound else 1.0
    if gains and (any_gain or below >= ALPHA):
        return Evidence(1.0, tested.p)
    return Evidence(below, 1.0)


@dataclass(frozen=True)
class About(Comparison):
    """Every difference is positive and within `bound` of `value`, as printed.

    Holds: the 90 % interval lies inside value ± bound and above zero (one-sided tests). Fails: the 95 % interval lies outside
    value ± bound, or below zero.
    """

    value: float = 0.0
    bound: float = 0.5

    @property
    def says(self) -> str:
        return f"a gain of {self.value} ± {self.bound}: {_said(self.pairs)}"

    @property
    def has_bound(self) -> bool:
        return True

    def judge(self, tested: Difference) -> Evidence:
        low, high = self.value - self.bound, self.value + self.bound
        if not max(low, 0.0) < tested.value < high:
            nearest = max(low, 0.0) if tested.value <= max(low, 0.0) else high
            return Evidence(1.0, tested.p_against(nearest))
        return Evidence(max(tested.p_against(max(low, 0.0)) / 2, tested.p_against(high) / 2), 1.0)


def _said(pairs: Iterable[Pair]) -> str:
    return ", ".join(f"{first} − {second}" for first, second in pairs)
