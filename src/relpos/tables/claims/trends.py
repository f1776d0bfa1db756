"""Tests of claims about several sizes or amounts at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2

from relpos.tables.claims.comparisons import Higher
from relpos.tables.claims.finding import FAILS, HOLDS, NOT_RUN, UNDECIDED, Finding
from relpos.tables.claims.gains import MEAN, gain
from relpos.tables.claims.scales import Scale, Scales
from relpos.tables.statistics import ALPHA, independent


@dataclass(frozen=True)
class Shrinks:
    """The gain of `first` over `second` is smaller at the larger of two sizes, on the same text.

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
            small, large = group[0], group[-1]
            gains = [gain(one, self.first, self.second, self.column, _common(group, self.rows)) for one in (small, large)]
            if gains[0] is None or gains[1] is None:
                continue
            test = independent(list(gains[0].pairs.values()), list(gains[1].pairs.values()))
            said = [f"{one.label}: {own.said}" for one, own in zip((small, large), gains, strict=True) if own]
            verdict = UNDECIDED if test is None else HOLDS if test.low > 0 else FAILS if test.high < 0 else UNDECIDED
            said += [f"shrinks by {test.value:+.1f} [{test.low:+.1f}, {test.high:+.1f}]"] if test else []
            found.append(Finding(verdict, "; ".join(said), f"{small.label} and {large.label}"))
        return found


@dataclass(frozen=True)
class HigherAtLargest(Higher):
    """`Higher`, at the larger of two or more sizes on the same text."""

    def findings(self, scales: Scales) -> list[Finding]:
        return [self.at(group[-1]) for group in _same_text(scales, self.rows[:2])]


def _same_text(scales: Scales, rows: Sequence[str]) -> list[list[Scale]]:
    """Groups of scales with these rows on one store, of different sizes, the smallest first; of one size, that with most steps."""
    groups: dict[str, dict[int, Scale]] = {}
    for scale in scales:  # in the order of size and steps
        if scale.has(*rows):
            groups.setdefault(scale.store, {})[scale.magnitude] = scale
    return [list(group.values()) for group in groups.values() if len(group) > 1]


def _common(group: Sequence[Scale], rows: Sequence[str]) -> list[str]:
    return [column for column in group[0].columns(*rows) if all(column in other.columns(*rows) for other in group)]


@dataclass(frozen=True)
class Falls:
    """The gain of `first` over `second` falls with the number of training pairs, all else being equal.

    A straight line through the gains of all seeds over log2(pairs), in scales that differ in `pairs` alone: holds where the 95 %
    interval of its slope lies below zero, fails where it lies above.
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
            points: list[tuple[float, float]] = []
            for scale in group:
                one = gain(scale, self.first, self.second, self.column, _common(group, self.rows))
                points += [(log2(scale.meaning["pairs"]), value) for value in one.pairs.values()] if one else []
            if len({x for x, _ in points}) > 1:
                label = f"{group[0].label} to {group[-1].meaning['pairs']:,}"
                found.append(
                    Finding(*_slope(points, lambda low, high: HOLDS if high < 0 else FAILS if low > 0 else UNDECIDED), label)
                )
        return found


@dataclass(frozen=True)
class Steady:
    """The gains of `rows` over `base` do not depend on S: a line through them changes by less than `bound` from first to last.

    Args:
        steps: S → row.
        base: the row without it.
    """

    steps: dict[int, str]
    base: str
    bound: float = 0.5
    column: str = MEAN
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
            gains = {size: gain(scale, row, self.base, self.column) for size, row in self.steps.items()}
            known = {size: one for size, one in gains.items() if one is not None}
            if not known:
                continue
            points = [(float(size), value) for size, one in known.items() for value in one.pairs.values()]
            said = "; ".join(one.said for one in known.values())
            if len(known) < len(self.steps):
                found.append(Finding(NOT_RUN, f"{said}; not every S was run", scale.label))
                continue
            verdict, slope = _slope(points, self._judge)
            found.append(Finding(verdict, "; ".join(filter(None, [said, slope, self.note])), scale.label))
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
