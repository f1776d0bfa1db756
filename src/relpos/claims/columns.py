"""Tests of claims that compare one column with the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from relpos.claims.effort import to_decide
from relpos.claims.finding import NOT_RUN, UNDECIDED, Evidence, Finding, joined
from relpos.claims.gains import among, gain, units
from relpos.claims.requirements import SEVERAL, Requirements
from relpos.claims.scales import Scale, Scales
from relpos.tables.columns import GLUE
from relpos.tables.pooled import difference
from relpos.tables.statistics import SEED, Difference, combined

DRAWS = 20_000


@dataclass(frozen=True)
class FromTo:
    """What `column` loses from the row `before` to the row `after`, compared with the others of `columns` (None: of GLUE's)."""

    before: str
    after: str
    column: str
    note: str = ""
    columns: Sequence[str] | None = None

    @property
    def rows(self) -> tuple[str, ...]:
        """`before` and `after`."""
        return self.before, self.after

    @property
    def requires(self) -> Requirements:
        """At least two columns: this one and another."""
        return Requirements(SEVERAL, self.columns or GLUE, least=2)

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each scale that has both rows."""
        return [self.at(scale) for scale in scales if scale.has(*self.rows)]

    def at(self, scale: Scale) -> Finding:
        """The verdict at one scale."""
        raise NotImplementedError

    def _columns(self, scale: Scale) -> list[str]:
        """The columns in which at least one of the two rows is better than the constant answer."""
        return scale.telling(among(scale.columns(*self.rows), self.columns), *self.rows)


@dataclass(frozen=True)
class SuffersMost(FromTo):
    """From the row `before` to the row `after`, `column` loses most, in points.

    Losses are estimated from few pre-trainings: true losses are drawn from t-distributions with the columns' pooled errors. Holds:
    `column` loses most in 95 % of the draws. Fails: in 5 % or fewer. With `least` it is to lose least. The figures show the same
    for losses in standard deviations between pre-trainings, which are drawn too (χ²); this does not decide.
    """

    least: bool = False

    @property
    def says(self) -> str:
        return f"{self.column} loses {'least' if self.least else 'most'} of all columns from {self.before} to {self.after}"

    def at(self, scale: Scale) -> Finding:
        columns = self._columns(scale)
        if self.column not in columns or len(columns) < 2:
            figures = (
                f"needs {self.column} and other columns better than the constant answer; there are {', '.join(columns) or 'none'}"
            )
            return Finding(NOT_RUN, figures, scale.label)
        gains = {column: gain(scale, self.before, self.after, column) for column in columns}
        tested = {column: each.tested for column, each in gains.items() if each and each.tested}
        if len(tested) < len(columns):
            return Finding(
                UNDECIDED,
                joined([*(each.said for each in gains.values() if each), self.note]),
                scale.label,
                takes="two pre-training seeds or more of each column",
            )
        chance = np.random.default_rng(SEED)
        in_points, in_deviations = zip(*(_drawn_losses(chance, each) for each in tested.values()), strict=True)
        share, share_in_deviations = (self._share_first(np.stack(drawn), columns) for drawn in (in_points, in_deviations))
        evidence = Evidence(1 - share, share)
        said = ", ".join(f"{column} {each.value:.1f}" for column, each in sorted(tested.items(), key=lambda item: -item[1].value))
        figures = (
            f"loss in points: {said}; {self.column} first in {share:.0%} of the draws "
            f"({share_in_deviations:.0%} in standard deviations)"
        )
        takes = to_decide(scale, [_lead(tested, self.column, self.least)]) if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, joined([figures, self.note]), scale.label, evidence.p, takes)

    def _share_first(self, drawn: np.ndarray, columns: Sequence[str]) -> float:
        """The share of the draws, (columns, draws), in which the column loses most, or least."""
        first = drawn.argmin(axis=0) if self.least else drawn.argmax(axis=0)
        return float(np.mean(first == columns.index(self.column)))


def _lead(tested: Mapping[str, Difference], column: str, least: bool) -> Difference:
    """By how much the column loses more than the other that loses most; with `least`, less than the other that loses least."""
    sign = -1.0 if least else 1.0
    others = {name: each for name, each in tested.items() if name != column}
    rival = max(others.values(), key=lambda each: sign * each.value)
    return combined([(sign, tested[column]), (-sign, rival)])


def _drawn_losses(chance: np.random.Generator, tested: Difference) -> tuple[np.ndarray, np.ndarray]:
    """(draws,) each: losses drawn from an estimate, in points and in standard deviations between pre-trainings (at least 0.1)."""
    deviation = max(0.1, tested.error * (tested.n / 2) ** 0.5)
    deviations = deviation * np.sqrt(tested.freedom / chance.chisquare(tested.freedom, DRAWS))
    losses = tested.value + deviations * (2 / tested.n) ** 0.5 * chance.standard_normal(DRAWS)
    return losses, losses / deviations


@dataclass(frozen=True)
class LosesLessThanOthers(FromTo):
    """From `before` to `after`, `column` loses less than the mean of the other columns, in points.

    Holds: the 95 % interval of (others' loss − its loss) over pre-trainings lies above zero. Fails: below.
    """

    @property
    def says(self) -> str:
        return f"{self.column} loses less than the mean of the other columns from {self.before} to {self.after}"

    def at(self, scale: Scale) -> Finding:
        columns = self._columns(scale)
        others = [column for column in columns if column != self.column]
        if self.column not in columns or not others:
            return Finding(NOT_RUN, f"needs {self.column} and other columns better than the constant answer", scale.label)
        alone, mean = gain(scale, self.before, self.after, self.column), gain(scale, self.before, self.after, only=others)
        figures = joined([*(each.said for each in (alone, mean) if each), self.note])
        advantages = _advantages(scale, self.column, others)
        tested = difference(advantages, self.after, self.before)
        if tested is None:
            return Finding(UNDECIDED, figures, scale.label, takes="two pre-training seeds or more")
        evidence = Evidence(tested.p if tested.value > 0 else 1.0, tested.p if tested.value < 0 else 1.0)
        takes = to_decide(scale, [tested]) if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, figures, scale.label, evidence.p, takes)


def _advantages(scale: Scale, column: str, others: Sequence[str]) -> dict[str, dict[int, float]]:
    """Row → pre-training seed → its score in `column` minus the mean of the others."""
    of_column, of_others = units(scale, [column]), units(scale, others)
    return {
        row: {seed: by_seed[seed] - mean for seed, mean in of_others[row].items() if seed in by_seed}
        for row, by_seed in of_column.items()
        if row in of_others
    }
