"""Tests of claims about several sizes or amounts at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2

import numpy as np

from relpos.claims.comparisons import Higher, NotLower
from relpos.claims.effort import to_decide
from relpos.claims.finding import NOT_RUN, UNDECIDED, Evidence, Finding, joined
from relpos.claims.gains import MEAN, Gain, gains_alike, units
from relpos.claims.requirements import Requirements, of_column
from relpos.claims.scales import Scale, Scales
from relpos.tables.columns import GLUE
from relpos.tables.statistics import ALPHA, Difference, combined, paired

MORE_SEEDS = "two pre-training seeds or more of both rows at each scale"


@dataclass(frozen=True)
class OfScales:
    """Compares the gain of `first` over `second` in one column between scales.

    Args:
        first: a row.
        second: a row.
        column: a column of GLUE, or `glue`; in twins `loss` or `order`.
        bound: smaller changes of the gain count as none.
    """

    first: str
    second: str
    column: str = MEAN
    bound: float = 0.0

    @property
    def rows(self) -> tuple[str, ...]:
        """The two rows."""
        return self.first, self.second

    @property
    def requires(self) -> Requirements:
        """Dev scores in at least one column, or the measure of a twin."""
        return of_column(self.column)

    def twin(self, measure: str, bound: float) -> OfScales:
        """The same claim about held-out loss or shuffle gap."""
        return replace(self, column=measure, bound=bound)

    def _gains(self, group: Sequence[Scale]) -> list[Gain | None]:
        return gains_alike([(scale, self.first, self.second) for scale in group], self.column)

    def _finding(
        self, change: Difference | None, said: Sequence[str], scales: Sequence[Scale], label: str, gains: Sequence[Gain]
    ) -> Finding:
        """The verdict on the `change`, by which the gain shrinks or falls: holds if it is above zero and no less than the bound."""
        if any(not each.columns for each in gains):
            return Finding(NOT_RUN, joined(said), label)
        if change is None:
            return Finding(UNDECIDED, joined(said), label, takes=MORE_SEEDS)
        holds = change.p if change.value > 0 and change.value >= self.bound else 1.0
        evidence = Evidence(holds, change.p_against(self.bound) if change.value < self.bound else 1.0)
        digits = 1 if self.column in (MEAN, *GLUE) else 3
        figures = f"by {change.value:+.{digits}f} [{change.low:+.{digits}f}, {change.high:+.{digits}f}]"
        takes = to_decide(scales[-1], [change], self.bound) + " at each scale" if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, joined([*said, figures]), label, evidence.p, takes)


@dataclass(frozen=True)
class Shrinks(OfScales):
    """The gain of `first` over `second` is smaller at the larger of two sizes, after the same training and in the same columns.

    Holds: the 95 % interval of gain(smallest) − gain(largest) lies above zero. Fails: it lies below. Scales of one group differ in
    size and recipe alone: equally many steps on equally many examples of the same text. If the larger model were also trained
    longer, the effect of size could not be told from that of training.
    """

    @property
    def says(self) -> str:
        return f"{self.first} − {self.second} is smaller at the larger size, after equal training"

    @property
    def requires(self) -> Requirements:
        """All sizes trained as long as Chang et al. (2021) trained their smaller models; the sizes' own recipes differ in this."""
        return replace(of_column(self.column), overrides=("pretrain.steps=125000", "pretrain.batch=128"))

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each group of scales of several sizes."""
        findings = []
        for group in _sizes(scales.alike("size", "recipe"), self.rows, self.column):
            ends = [group[0], group[-1]]
            gains = [each for each in self._gains(ends) if each]
            if len(gains) < 2:
                continue
            tested = [each.tested for each in gains]
            change = combined([(1.0, tested[0]), (-1.0, tested[1])]) if tested[0] and tested[1] else None
            said = [f"{scale.label}: {each.said}" for scale, each in zip(ends, gains, strict=True)] + ["shrinks"] * bool(change)
            findings.append(self._finding(change, said, ends, " and ".join(scale.label for scale in ends), gains))
        return findings


@dataclass(frozen=True)
class HigherAtLargest(Higher):
    """`Higher`, at the larger of two or more sizes on the same text, each after as much training as it needs."""

    def findings(self, scales: Scales) -> list[Finding]:
        return [self.at(scale) for scale in _largest(scales, self.rows, self.column)]

    def twin(self, measure: str, bound: float) -> Higher:
        """The same claim about held-out loss or shuffle gap."""
        return HigherAtLargest(self.pairs, measure, beside=self.beside, note=self.note, bound=bound)


@dataclass(frozen=True)
class NotLowerAtLargest(NotLower):
    """`NotLower` at the same sizes."""

    def findings(self, scales: Scales) -> list[Finding]:
        return [self.at(scale) for scale in _largest(scales, self.rows, self.column)]

    def twin(self, measure: str, bound: float) -> Higher:
        """The claim that it is the best of all, in held-out loss or shuffle gap."""
        return HigherAtLargest(self.pairs, measure, beside=self.beside, note=self.note, bound=bound)


def _largest(scales: Scales, rows: Sequence[str], column: str) -> list[Scale]:
    """The largest scale of each group of several sizes."""
    groups = _sizes(scales.alike("size", "steps", "batch", "recipe"), rows[:2], column)
    return [group[-1] for group in groups]


def _sizes(alike: Sequence[Sequence[Scale]], rows: Sequence[str], column: str) -> list[list[Scale]]:
    """For each group its scales with these rows, one for each size, the smallest first; of a size, the one with most steps."""
    names = list(GLUE) if column == MEAN else [column]
    groups = [{scale.magnitude: scale for scale in group if scale.shared(names, *rows)} for group in alike]
    return [list(group.values()) for group in groups if len(group) > 1]


@dataclass(frozen=True)
class Falls(OfScales):
    """The gain of `first` over `second` falls with the number of training pairs, all else being equal.

    Tested is by how much a straight line through the gains over log2(pairs) falls from the fewest pairs to the most, in scales that
    differ in `pairs` alone and in the same columns. Holds: the 95 % interval lies above zero. Fails: it lies below.
    """

    @property
    def says(self) -> str:
        return f"{self.first} − {self.second} falls with the number of training pairs"

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each group of scales with several numbers of pairs."""
        names = list(GLUE) if self.column == MEAN else [self.column]
        findings = []
        for group in scales.alike("pairs"):
            limited = [scale for scale in group if scale.shared(names, *self.rows) and scale.meaning.get("pairs")]
            by_pairs = {scale.meaning["pairs"]: each for scale, each in zip(limited, self._gains(limited), strict=True) if each}
            if len(by_pairs) < 2:
                continue
            doublings = [log2(pairs) for pairs in by_pairs]
            tested = [each.tested for each in by_pairs.values()]
            weights = _slope_weights(doublings) * (min(doublings) - max(doublings))
            known = [(float(weight), each) for weight, each in zip(weights, tested, strict=True) if each]
            change = combined(known) if len(known) == len(tested) else None
            said = [f"{pairs:,} pairs: {each.said}" for pairs, each in by_pairs.items()] + ["falls"] * bool(change)
            label = f"{limited[0].label} to {limited[-1].meaning['pairs']:,}"
            findings.append(self._finding(change, said, limited, label, list(by_pairs.values())))
        return findings


def _slope_weights(places: Sequence[float]) -> np.ndarray:
    """The weight of each value in the slope of a straight line through values at these places."""
    centred = np.asarray(places) - np.mean(places)
    return np.asarray(centred / (centred**2).sum())


@dataclass(frozen=True)
class Steady:
    """The gains of `rows` over `base` do not depend on S: a line through them changes by less than `bound` from first to last.

    Each pre-training seed gives a slope of its own, since the rows of one seed share its effect. Holds: the 90 % interval of the
    mean change lies inside ±bound (two one-sided tests at 0.05). Fails: the 95 % interval lies above or below zero. A bound in
    points of GLUE is not applied to the mean of fewer columns.

    Args:
        steps: S → row.
        base: the row without TISA.
        columns: the columns of the mean, if the claim is about fewer; None: all of GLUE's.
    """

    steps: dict[int, str]
    base: str
    bound: float = 0.5
    column: str = MEAN
    columns: Sequence[str] | None = None
    note: str = ""

    @property
    def says(self) -> str:
        first, last = min(self.steps), max(self.steps)
        return f"the gain over {self.base} changes by less than {self.bound} from S = {first} to S = {last}"

    @property
    def rows(self) -> tuple[str, ...]:
        return self.base, *self.steps.values()

    @property
    def requires(self) -> Requirements:
        """All columns of the mean that the bound is for."""
        return of_column(self.column, self.columns, every=True)

    def twin(self, measure: str, bound: float) -> Steady:
        """The same claim about held-out loss or shuffle gap."""
        return replace(self, column=measure, columns=None, bound=bound)

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each scale that has the base and some S."""
        names = list(GLUE) if self.column == MEAN else [self.column]
        having = [scale for scale in scales if any(scale.shared(names, row, self.base) for row in self.steps.values())]
        return [self.at(scale) for scale in having]

    def at(self, scale: Scale) -> Finding:
        """The verdict at one scale."""
        gains = gains_alike([(scale, row, self.base) for row in self.steps.values()], self.column, self.columns)
        known = [each for each in gains if each]
        said = [each.said for each in known]
        if len(known) < len(self.steps):
            return Finding(NOT_RUN, joined([*said, "not every S was run in the same columns", self.note]), scale.label)
        columns = known[0].columns
        wanted = len(self.columns or GLUE) if self.column == MEAN else 1
        if len(columns) < wanted:
            few = f"the bound is one of the mean of {wanted} columns, and not all of them tell these rows apart here"
            return Finding(NOT_RUN, joined([*said, few, self.note]), scale.label)
        by_row = units(scale, columns)
        seeds = set.intersection(*(set(by_row[row]) for row in self.steps.values()))
        weights = _slope_weights(list(self.steps)) * (max(self.steps) - min(self.steps))
        changes = [
            sum(weight * by_row[row][seed] for weight, row in zip(weights, self.steps.values(), strict=True))
            for seed in sorted(seeds)
        ]
        tested = paired(changes, [0.0] * len(changes))
        if tested is None:
            return Finding(UNDECIDED, joined([*said, self.note]), scale.label, takes="two pre-training seeds or more of every S")
        against = max(tested.p_against(self.bound), tested.p_against(-self.bound)) / 2
        inside = against if abs(tested.value) < self.bound else 1.0
        evidence = Evidence(inside, tested.p if inside >= ALPHA else 1.0)
        figures = f"changes by {tested.value:+.2f} [{tested.low:+.2f}, {tested.high:+.2f}] over {tested.n} {scale.units}"
        takes = to_decide(scale, [tested], self.bound if tested.value > 0 else -self.bound) if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, joined([*said, figures, self.note]), scale.label, evidence.p, takes)
