"""Tests of claims that count the columns in which one row is above another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relpos.claims.comparisons import SEVERAL_SEEDS, Higher, Pair, mean_without_loss
from relpos.claims.effort import to_decide
from relpos.claims.finding import NOT_RUN, UNDECIDED, Evidence, Finding, joined
from relpos.claims.gains import MEAN, among, gain
from relpos.claims.requirements import Requirements, of_column
from relpos.claims.scales import Scale, Scales
from relpos.tables.statistics import ALPHA, SEED, Difference

DRAWS = 20_000


@dataclass(frozen=True)
class OverColumns:
    """Compares one pair of rows, `[first, second]`, column by column.

    Args:
        pair: the two rows.
        columns: those that the claim is about; None: all of GLUE's. Columns in which neither row is better than the constant answer
            tell nothing and are left out.
        note: how these runs differ from the paper's.
    """

    pair: Pair
    columns: Sequence[str] | None = None
    note: str = ""

    @property
    def rows(self) -> tuple[str, ...]:
        """The two rows."""
        return tuple(self.pair)

    @property
    def requires(self) -> Requirements:
        """Scores in at least one column."""
        return of_column(MEAN, self.columns)

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each scale that has both rows."""
        return [self.at(scale) for scale in scales if scale.has(*self.pair)]

    def at(self, scale: Scale) -> Finding:
        """The verdict at one scale."""
        first, second = self.pair
        names = scale.telling(among(scale.columns(first, second), self.columns), first, second)
        mean = gain(scale, first, second, only=self.columns)
        if not names or mean is None:
            return Finding(NOT_RUN, f"{first} and {second}: at the constant answer in every column", scale.label)
        gains = [each for column in names if (each := gain(scale, first, second, column))]
        tested = [each.tested for each in gains if each.tested]
        figures = [f"{first} − {second} above zero in {sum(each.value > 0 for each in gains)} of {len(gains)} columns"]
        if mean.tested is None or len(tested) < len(gains):
            return Finding(UNDECIDED, joined([*figures, mean.said, self.note]), scale.label, takes=SEVERAL_SEEDS)
        evidence, said = self.judge(tested, mean.tested)
        up, down = (sum(each.p < ALPHA and sign * each.value > 0 for each in tested) for sign in (1, -1))
        figures[0] += f" ({up} clearly above, {down} clearly below{said})"
        takes = to_decide(scale, [mean.tested]) if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, joined([*figures, mean.said, self.note]), scale.label, evidence.p, takes)

    def judge(self, columns: Sequence[Difference], mean: Difference) -> tuple[Evidence, str]:
        """The evidence from the differences in each column and in their mean, and a phrase that says what decided."""
        raise NotImplementedError

    def twin(self, measure: str, bound: float) -> Higher:
        """The same rows in held-out loss or shuffle gap."""
        return Higher([self.pair], measure, bound=bound, note=self.note)


@dataclass(frozen=True)
class Signs(OverColumns):
    """The first row is above the second in `at_least` of `of` columns.

    If only some columns were run, the same share of them is asked for. The count is simulated: each column's true difference is
    drawn from the t-distribution that its pooled error gives. Holds: 95 % of the draws have so many columns above zero. Fails: 5 %
    or fewer. To ask for an interval above zero in each column would ask much more than a count does.
    """

    at_least: int = 1
    of: int = 9

    @property
    def says(self) -> str:
        first, second = self.pair
        return f"{first} − {second} truly above zero in {self.at_least} of {self.of} columns, in 95 % of what the errors allow"

    def judge(self, columns: Sequence[Difference], mean: Difference) -> tuple[Evidence, str]:
        needed = -(-self.at_least * len(columns) // self.of)
        chance = np.random.default_rng(SEED)
        counts = np.sum([_drawn(chance, tested) > 0 for tested in columns], axis=0)
        share = float(np.mean(counts >= needed))
        return Evidence(1 - share, share), f"; {needed} or more in {share:.0%} of the draws"


def _drawn(chance: np.random.Generator, tested: Difference) -> np.ndarray:
    """(draws,): true differences, drawn from an estimate."""
    return np.asarray(tested.value + tested.error * chance.standard_t(tested.freedom, DRAWS))


@dataclass(frozen=True)
class GainWithoutLoss(OverColumns):
    """The first row is above the second in the mean of the columns, and clearly below in none.

    Holds: the 95 % interval of the mean gain lies above zero, and no column's lies below, by Holm's correction. Fails: that of the
    mean or of a column lies below, by Holm's correction.
    """

    @property
    def says(self) -> str:
        first, second = self.pair
        return f"{first} − {second} above zero in the mean of the columns, and clearly below in none"

    def judge(self, columns: Sequence[Difference], mean: Difference) -> tuple[Evidence, str]:
        return mean_without_loss(mean, columns), ""
