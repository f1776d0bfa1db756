"""Tests of claims that set one column against the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relpos.claims.finding import FAILS, HOLDS, NOT_RUN, UNDECIDED, Finding, decided
from relpos.claims.gains import MEAN, among, gain, units, values
from relpos.claims.scales import Scale, Scales
from relpos.tables.statistics import ALPHA, SEED, paired

RESAMPLES = 2_000


@dataclass(frozen=True)
class FromTo:
    """What `column` loses from the row `before` to the row `after`, against the others of `columns` (None: of GLUE's)."""

    before: str
    after: str
    column: str
    note: str = ""
    columns: Sequence[str] | None = None

    @property
    def rows(self) -> tuple[str, ...]:
        """The two."""
        return self.before, self.after

    def findings(self, scales: Scales) -> list[Finding]:
        """Of every scale that has both."""
        return [self.at(scale) for scale in scales if scale.has(*self.rows)]

    def at(self, scale: Scale) -> Finding:
        """The verdict at one scale."""
        raise NotImplementedError


@dataclass(frozen=True)
class SuffersMost(FromTo):
    """From the row `before` to the row `after`, `column` loses most, in units of the pooled standard deviation over seeds.

    Holds: it does in 95 % of resamples of the seeds of both rows. Fails: in 5 % or fewer. `least` turns it round: it loses least.
    """

    least: bool = False

    @property
    def says(self) -> str:
        return f"{self.column} loses {'least' if self.least else 'most'} of all columns from {self.before} to {self.after}"

    def at(self, scale: Scale) -> Finding:
        columns = among(scale.columns(*self.rows), self.columns)
        if self.column not in columns or len(columns) < 2:
            return Finding(NOT_RUN, f"needs {self.column} and other columns; there are {', '.join(columns)}", scale.label)
        columns = among(scale.telling(*self.rows), self.columns)
        if self.column not in columns:
            return Finding(UNDECIDED, f"{' and '.join(self.rows)} are at the constant answer in {self.column}", scale.label)
        pairs = [units(*(values(scale, row, [column]) for row in self.rows)) for column in columns]
        before, after = ([list(pair[place].values()) for pair in pairs] for place in (0, 1))
        if min(len(one) for one in (*before, *after)) < 2:
            return Finding(UNDECIDED, "needs two seeds or more of each column", scale.label)
        spreads = [_spread(one, other) for one, other in zip(before, after, strict=True)]
        drops = _drops(before, after, spreads)
        said = ", ".join(f"{column} {drop:.1f}" for column, drop in sorted(zip(columns, drops, strict=True), key=lambda x: -x[1]))
        chance = np.random.default_rng(SEED)
        place = columns.index(self.column)
        wins = 0
        for _ in range(RESAMPLES):
            again = _drops([_drawn(chance, one) for one in before], [_drawn(chance, one) for one in after], spreads)
            wins += int((np.argmin(again) if self.least else np.argmax(again)) == place)
        share = wins / RESAMPLES
        verdict = HOLDS if share >= 1 - ALPHA else FAILS if share <= ALPHA else UNDECIDED
        figures = f"loss in standard deviations: {said}; {self.column} first in {share:.0%} of resamples"
        by_pretrainings = all(isinstance(unit, int) for pair in pairs for unit in pair[0])
        return decided([(verdict, by_pretrainings)], [figures, self.note], scale.label)


def _spread(one: Sequence[float], other: Sequence[float]) -> float:
    """Pooled standard deviation, at least a tenth of a point."""
    return max(0.1, float((np.var(one, ddof=1) + np.var(other, ddof=1)) / 2) ** 0.5)


def _drawn(chance: np.random.Generator, some: Sequence[float]) -> list[float]:
    return [float(one) for one in chance.choice(some, len(some))]


def _drops(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]], spreads: Sequence[float]) -> list[float]:
    """Of each column, the loss of the mean in units of its spread."""
    return [(sum(a) / len(a) - sum(b) / len(b)) / spread for a, b, spread in zip(before, after, spreads, strict=True)]


@dataclass(frozen=True)
class LosesLessThanOthers(FromTo):
    """From `before` to `after`, `column` loses less than the mean of the other columns, in points.

    Holds: the 95 % interval of (others' loss − its loss), over seeds that all columns share, lies above zero. Fails: below.
    """

    @property
    def says(self) -> str:
        return f"{self.column} loses less than the mean of the other columns from {self.before} to {self.after}"

    def at(self, scale: Scale) -> Finding:
        others = [column for column in among(scale.columns(*self.rows), self.columns) if column != self.column]
        pair = self.before, self.after
        own, rest = gain(scale, *pair, self.column), gain(scale, *pair, MEAN, others)
        if own is None or rest is None or not others:
            return Finding(NOT_RUN, f"needs {self.column} and other columns", scale.label)
        shared = [unit for unit in own.pairs if unit in rest.pairs]
        test = paired([rest.pairs[unit] for unit in shared], [own.pairs[unit] for unit in shared])
        verdict = UNDECIDED if test is None else HOLDS if test.low > 0 else FAILS if test.high < 0 else UNDECIDED
        return decided([(verdict, own.by_pretrainings and rest.by_pretrainings)], [own.said, rest.said, self.note], scale.label)
