"""Tests of claims about several sizes or amounts at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2

from relpos.claims.comparisons import Higher
from relpos.claims.finding import FAILS, HOLDS, NOT_RUN, UNDECIDED, Finding, decided
from relpos.claims.gains import MEAN, gains_alike
from relpos.claims.scales import Scale, Scales
from relpos.tables.statistics import ALPHA, independent


@dataclass(frozen=True)
class Shrinks:
    """The gain of `first` over `second` is smaller at the larger of two sizes, on the same text and in the same columns.

    Holds: the 95 % interval of gain(smallest) − gain(largest) lies above zero. Fails: below. Steps and batch belong to the size.
    """

    first: str
    second: str
    column: str = MEAN

    @property
    def says(self) -> str:
        return f"{self.first} − {self.second} is smaller at the larger size"

    @property
    def rows(self) -> tuple[str, ...]:
        return self.first, self.second

    def findings(self, scales: Scales) -> list[Finding]:
        found = []
        for group in _same_text(scales, self.rows):
            gains = gains_alike([(scale, self.first, self.second) for scale in group], self.column)
            small, large = gains[0], gains[-1]
            if small is None or large is None:
                continue
            test = independent(list(small.pairs.values()), list(large.pairs.values()))
            said = [f"{group[0].label}: {small.said}", f"{group[-1].label}: {large.said}"]
            verdict = UNDECIDED if test is None else HOLDS if test.low > 0 else FAILS if test.high < 0 else UNDECIDED
            said += [f"shrinks by {test.value:+.1f} [{test.low:+.1f}, {test.high:+.1f}]"] if test else []
            verdicts = [(verdict, small.by_pretrainings and large.by_pretrainings)]
            found.append(decided(verdicts, said, f"{group[0].label} and {group[-1].label}"))
        return found


@dataclass(frozen=True)
class HigherAtLargest(Higher):
    """`Higher`, at the larger of two or more sizes on the same text."""

    def findings(self, scales: Scales) -> list[Finding]:
        return [self.at(group[-1]) for group in _same_text(scales, self.rows[:2])]


def _same_text(scales: Scales, rows: Sequence[str]) -> list[list[Scale]]:
    """Groups of scales with these rows, of different sizes, the smallest first; of one size, that with most steps.

    They differ in nothing but the size and what a size needs: as much of the same text, of the same length.
    """
    alike = scales.alike("size", "steps", "batch", "recipe")  # in the order of size and steps
    groups = [{scale.magnitude: scale for scale in group if scale.has(*rows)} for group in alike]
    return [list(group.values()) for group in groups if len(group) > 1]


@dataclass(frozen=True)
class Falls:
    """The gain of `first` over `second` falls with the number of training pairs, all else being equal.

    A straight line through the gains of all seeds over log2(pairs), in scales that differ in `pairs` alone and in the same columns:
    holds where the 95 % interval of its slope lies below zero, fails where it lies above.
    """

    first: str
    second: str
    column: str = MEAN

    @property
    def says(self) -> str:
        return f"{self.first} − {self.second} falls with the number of training pairs"

    @property
    def rows(self) -> tuple[str, ...]:
        return self.first, self.second

    def findings(self, scales: Scales) -> list[Finding]:
        groups = [
            [scale for scale in group if scale.has(*self.rows) and scale.meaning.get("pairs")] for group in scales.alike("pairs")
        ]
        found = []
        for group in groups:
            gains = gains_alike([(scale, self.first, self.second) for scale in group], self.column)
            known = {scale.meaning["pairs"]: one for scale, one in zip(group, gains, strict=True) if one is not None}
            points = [(log2(pairs), value) for pairs, one in known.items() for value in one.pairs.values()]
            if len({x for x, _ in points}) > 1:
                label = f"{group[0].label} to {group[-1].meaning['pairs']:,}"
                verdict, slope = _slope(points, lambda low, high: HOLDS if high < 0 else FAILS if low > 0 else UNDECIDED)
                found.append(decided([(verdict, all(one.by_pretrainings for one in known.values()))], [slope], label))
        return found


@dataclass(frozen=True)
class Steady:
    """The gains of `rows` over `base` do not depend on S: a line through them changes by less than `bound` from first to last.

    Args:
        steps: S → row.
        base: the row without it.
        columns: for the mean, these alone, where the claim is about fewer; None: all of GLUE's.
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

    def findings(self, scales: Scales) -> list[Finding]:
        found = []
        for scale in scales:
            there = {size: row for size, row in self.steps.items() if scale.has(row, self.base)}
            gains = gains_alike([(scale, row, self.base) for row in there.values()], self.column, self.columns)
            known = {size: one for size, one in zip(there, gains, strict=True) if one is not None}
            if not known:
                continue
            points = [(float(size), value) for size, one in known.items() for value in one.pairs.values()]
            said = "; ".join(one.said for one in known.values())
            if len(known) < len(self.steps):
                found.append(Finding(NOT_RUN, f"{said}; not every S was run", scale.label))
                continue
            verdict, slope = _slope(points, self._judge)
            by_pretrainings = all(one.by_pretrainings for one in known.values())
            found.append(decided([(verdict, by_pretrainings)], [said, slope, self.note], scale.label))
        return found

    def _judge(self, low: float, high: float) -> str:
        """Of the ends of the slope's interval; the line is as long as the range of S."""
        reach = max(self.steps) - min(self.steps)
        low, high = low * reach, high * reach
        if -self.bound < low and high < self.bound:
            return HOLDS
        return FAILS if low > 0 or high < 0 else UNDECIDED


def _slope(points: Sequence[tuple[float, float]], judge: Callable[[float, float], str]) -> tuple[str, str]:
    """The verdict on the 95 % interval of a line's slope, and the slope in words."""
    from scipy.stats import linregress, t

    x, y = zip(*points, strict=True)
    if len(points) < 3 or len(set(x)) < 2:
        return UNDECIDED, "too few runs for a line"
    line = linregress(x, y)
    half = float(t.ppf(1 - ALPHA / 2, len(points) - 2)) * line.stderr
    low, high = line.slope - half, line.slope + half
    return judge(low, high), f"slope {line.slope:+.2f} [{low:+.2f}, {high:+.2f}] over {len(points)} runs"
