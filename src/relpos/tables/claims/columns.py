"""Tests of claims that set one column against the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relpos.tables.claims.finding import FAILS, HOLDS, NOT_RUN, UNDECIDED, Finding
from relpos.tables.claims.gains import MEAN, gain, values
from relpos.tables.claims.scales import Scale, Scales
from relpos.tables.statistics import ALPHA, SEED, paired

RESAMPLES = 2_000


@dataclass(frozen=True)
class SuffersMost:
    """From the row `before` to the row `after`, `column` loses most, in units of the pooled standard deviation over seeds.

    Holds: it does in 95 % of resamples of the seeds of both rows. Fails: in 5 % or fewer. `least` turns it round: it loses least.
    """

    before: str
    after: str
    column: str
    least: bool = False
    note: str = ""

    @property
    def says(self) -> str:
        return f"{self.column} loses {'least' if self.least else 'most'} of all columns from {self.before} to {self.after}"

    @property
    def rows(self) -> tuple[str, ...]:
        return self.before, self.after

    def findings(self, scales: Scales) -> list[Finding]:
        return [self.at(scale) for scale in scales if scale.has(*self.rows)]

    def at(self, scale: Scale) -> Finding:
        columns = scale.columns(*self.rows)
        if self.column not in columns or len(columns) < 2:
            return Finding(NOT_RUN, f"needs {self.column} and other columns; there are {', '.join(columns)}", scale.label)
        scores = [[list(values(scale, row, [column]).values()) for column in columns] for row in self.rows]
        if min(len(one) for row in scores for one in row) < 2:
            return Finding(UNDECIDED, "needs two seeds or more of each column", scale.label)
        drops = _drops(*scores)
        said = ", ".join(f"{column} {drop:.1f}" for column, drop in sorted(zip(columns, drops, strict=True), key=lambda x: -x[1]))
        chance = np.random.default_rng(SEED)
        place = columns.index(self.column)
        wins = 0
        for _ in range(RESAMPLES):
            again = _drops(*([chance.choice(one, len(one)).tolist() for one in row] for row in scores), spread_of=scores)
            wins += int((np.argmin(again) if self.least else np.argmax(again)) == place)
        share = wins / RESAMPLES
        verdict = HOLDS if share >= 1 - ALPHA else FAILS if share <= ALPHA else UNDECIDED
        figures = f"loss in standard deviations: {said}; {self.column} first in {share:.0%} of resamples"
        return Finding(verdict, "; ".join(filter(None, [figures, self.note])), scale.label)


def _drops(
    before: Sequence[Sequence[float]],
    after: Sequence[Sequence[float]],
    spread_of: Sequence[Sequence[Sequence[float]]] | None = None,
) -> list[float]:
    """Of each column, the loss over the pooled standard deviation (of `spread_of`; at least a tenth of a point)."""
    own, other = spread_of or (before, after)
    spreads = [max(0.1, ((np.var(a, ddof=1) + np.var(b, ddof=1)) / 2) ** 0.5) for a, b in zip(own, other, strict=True)]
    return [float((np.mean(a) - np.mean(b)) / s) for a, b, s in zip(before, after, spreads, strict=True)]


@dataclass(frozen=True)
class LosesLessThanOthers:
    """From `before` to `after`, `column` loses less than the mean of the other columns, in points.

    Holds: the 95 % interval of (others' loss − its loss), over seeds that all columns share, lies above zero. Fails: below.
    """

    before: str
    after: str
    column: str
    note: str = ""

    @property
    def says(self) -> str:
        return f"{self.column} loses less than the mean of the other columns from {self.before} to {self.after}"

    @property
    def rows(self) -> tuple[str, ...]:
        return self.before, self.after

    def findings(self, scales: Scales) -> list[Finding]:
        return [self.at(scale) for scale in scales if scale.has(*self.rows)]

    def at(self, scale: Scale) -> Finding:
        others = [column for column in scale.columns(*self.rows) if column != self.column]
        own, rest = gain(scale, *self.rows, self.column), gain(scale, *self.rows, MEAN, others)
        if own is None or rest is None:
            return Finding(NOT_RUN, f"needs {self.column} and other columns", scale.label)
        shared = [unit for unit in own.pairs if unit in rest.pairs]
        test = paired([rest.pairs[unit] for unit in shared], [own.pairs[unit] for unit in shared])
        verdict = UNDECIDED if test is None else HOLDS if test.low > 0 else FAILS if test.high < 0 else UNDECIDED
        return Finding(verdict, "; ".join(filter(None, [own.said, rest.said, self.note])), scale.label)
