"""Tests of claims that compare rows of one scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from relpos.claims.finding import FAILS, HOLDS, NOT_RUN, UNDECIDED, Finding, decided
from relpos.claims.gains import MEAN, Gain, among, gain
from relpos.claims.scales import Scale, Scales
from relpos.tables.statistics import ALPHA, holm

Pair = Sequence[str]


@dataclass(frozen=True)
class Comparison:
    """Pairs of rows, each `[first, second]`, in the same column.

    Args:
        pairs: what is compared.
        column: a column of GLUE, or `glue`: the mean of the nine, or of those that both rows have.
        columns: for the mean, these alone, where the claim is about fewer; None: all of GLUE's.
        apart: columns whose figures are shown beside, without a say in the verdict.
        beside: more pairs whose figures are shown.
        note: what tells these runs from the paper's.
    """

    pairs: Sequence[Pair]
    column: str = MEAN
    columns: Sequence[str] | None = None
    apart: Sequence[str] = ()
    beside: Sequence[Pair] = ()
    note: str = ""

    @property
    def says(self) -> str:
        """The rule."""
        raise NotImplementedError

    @property
    def rows(self) -> tuple[str, ...]:
        """Each once."""
        return tuple(dict.fromkeys(row for pair in self.pairs for row in pair))

    def findings(self, scales: Scales) -> list[Finding]:
        """Of every scale that has some of the rows with a score."""
        return [self.at(scale) for scale in scales if any(scale.has(*pair) for pair in self.pairs)]

    def at(self, scale: Scale) -> Finding:
        """The verdict at one scale."""
        gains = [gain(scale, pair[0], pair[1], self.column, self.columns) for pair in self.pairs]
        there = [one for one in gains if one is not None]
        verdicts = [(verdict, one.by_pretrainings) for verdict, one in zip(self.judge(there), there, strict=True)]
        verdicts += [(NOT_RUN, True)] * (len(gains) - len(there))
        missing = [row for row in self.rows if not scale.columns(row)]
        figures = [one.said for one in there]
        figures += [found.said for name in self.apart for pair in self.pairs if (found := gain(scale, pair[0], pair[1], name))]
        figures += [found.said for pair in self.beside if (found := gain(scale, pair[0], pair[1], self.column, self.columns))]
        figures += [f"no scores of {', '.join(missing)}"] if missing else []
        return decided(verdicts, [*figures, self.note], scale.label)

    def judge(self, gains: Sequence[Gain]) -> list[str]:
        """A verdict for each pair."""
        raise NotImplementedError


@dataclass(frozen=True)
class Higher(Comparison):
    """Every first row is above its second one.

    Holds: the 95 % interval of each difference lies above zero (all must, so that no correction is due). Fails: one lies below,
    by a two-sided test at 0.05 with Holm's correction.
    """

    @property
    def says(self) -> str:
        return f"each difference above zero: {_said(self.pairs)}"

    def judge(self, gains: Sequence[Gain]) -> list[str]:
        known = [one.found for one in gains if one.found is not None]
        adjusted = dict(zip(map(id, known), holm([found.p for found in known]), strict=True))
        verdicts = []
        for one in gains:
            if one.found is None:
                verdicts.append(UNDECIDED)
            elif one.found.low > 0:
                verdicts.append(HOLDS)
            else:
                verdicts.append(FAILS if one.value < 0 and adjusted[id(one.found)] < ALPHA else UNDECIDED)
        return verdicts


@dataclass(frozen=True)
class NotHigher(Comparison):
    """No first row is above its second one by as much as `bound`.

    Holds: the upper end of the 95 % interval lies below the bound. Fails: the interval lies above zero and reaches the bound; with
    `any_gain` it fails wherever the interval lies above zero, however small the gain.
    """

    bound: float = 0.5
    any_gain: bool = False

    @property
    def says(self) -> str:
        clear = ", nor a clear one above zero" if self.any_gain else ""
        return f"no gain of {self.bound} or more{clear}: {_said(self.pairs)}"

    def judge(self, gains: Sequence[Gain]) -> list[str]:
        return [FAILS if self.any_gain and one.found and one.found.low > 0 else _below(one, self.bound) for one in gains]


@dataclass(frozen=True)
class NotLower(Comparison):
    """No first row is below its second one by as much as `bound`: `NotHigher` the other way round."""

    bound: float = 0.5

    @property
    def says(self) -> str:
        return f"no loss of {self.bound} or more: {_said(self.pairs)}"

    def judge(self, gains: Sequence[Gain]) -> list[str]:
        return [_above(one, -self.bound) for one in gains]


def _below(one: Gain, bound: float) -> str:
    if one.found is None:
        return UNDECIDED
    return HOLDS if one.found.high < bound else FAILS if one.found.low > 0 else UNDECIDED


def _above(one: Gain, bound: float) -> str:
    if one.found is None:
        return UNDECIDED
    return HOLDS if one.found.low > bound else FAILS if one.found.high < 0 else UNDECIDED


@dataclass(frozen=True)
class About(Comparison):
    """Every difference is positive and within `bound` of `value`, as printed.

    Holds: the 90 % interval lies inside value ± bound (two one-sided tests) and the 95 % one above zero. Fails: the 95 % interval
    lies outside value ± bound, or below zero.
    """

    value: float = 0.0
    bound: float = 0.5

    @property
    def says(self) -> str:
        return f"a gain of {self.value} ± {self.bound}: {_said(self.pairs)}"

    def judge(self, gains: Sequence[Gain]) -> list[str]:
        low, high = self.value - self.bound, self.value + self.bound
        verdicts = []
        for one in gains:
            found = one.found
            if found is None:
                verdicts.append(UNDECIDED)
            elif found.high < max(low, 0.0) or found.low > high:
                verdicts.append(FAILS)
            else:
                verdicts.append(HOLDS if found.low > 0 and low < found.low90 and found.high90 < high else UNDECIDED)
        return verdicts


@dataclass(frozen=True)
class Signs(Comparison):
    """Of one pair, column by column: the first row is above the second in `at_least` columns of those that `of` counts.

    Where only some columns were run, the same share of them is asked for. Holds: so many 95 % intervals lie above zero. Fails: so
    many lie below that the number cannot be reached.
    """

    at_least: int = 1
    of: int = 9

    @property
    def says(self) -> str:
        return f"above in {self.at_least} of {self.of} columns: {_said(self.pairs)}"

    def at(self, scale: Scale) -> Finding:
        first, second = self.pairs[0]
        columns = among(scale.telling(first, second), self.columns)
        gains = {column: found for column in columns if (found := gain(scale, first, second, column))}
        needed = -(-self.at_least * len(gains) // self.of)
        up = sum(one.found is not None and one.found.low > 0 for one in gains.values())
        down = sum(one.found is not None and one.found.high < 0 for one in gains.values())
        single = sum(one.value > 0 for one in gains.values())
        verdict = HOLDS if 0 < needed <= up else FAILS if len(gains) - down < needed else UNDECIDED
        figures = [f"{first} − {second} above zero in {single} of {len(gains)} columns ({up} clearly above, {down} clearly below)"]
        figures += [found.said for name in (MEAN,) if (found := gain(scale, first, second, name, self.columns))]
        by_pretrainings = all(one.by_pretrainings for one in gains.values() if one.found)
        return decided([(verdict, by_pretrainings)], [*figures, self.note], scale.label)

    def judge(self, gains: Sequence[Gain]) -> list[str]:
        raise AssertionError("decided over the columns together")


def _said(pairs: Iterable[Pair]) -> str:
    return ", ".join(f"{first} − {second}" for first, second in pairs)
