"""Rules about levels: what the scores of rows are held to. `checks:` of an experiment file are such claims about its rows.

The standard error is that of a score on the column's dev examples, see `relpos.results.statistics.standard_error`. Chance is the
score of the best constant answer, 0 for correlations, 50 for minimal pairs. A figure in nats has no standard error here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter
from math import hypot
from statistics import fmean
from typing import Any

from relpos.claims.rule import Rule, Test, each_scale, options_of
from relpos.claims.verdict import FAILS, HOLDS, NOT_RUN, UNDECIDED, Verdict
from relpos.measures.measure import NATS
from relpos.results.scale import Scale
from relpos.results.statistics import standard_error
from relpos.results.values import Value

WIDTH = 3.0
"""Standard errors that a score may be on the wrong side of a bound."""
CHANCE = "chance"
Said = tuple[str, str]
"""A verdict, and the figures that decide."""


@dataclass(frozen=True)
class Level:
    """The mean of a row in a column, the score of the constant answer, and the number of examples."""

    value: float
    chance: float | None
    examples: int | None
    metric: str

    def error(self, score: float) -> float:
        """The standard error of such a score."""
        return standard_error(score, self.examples, self.metric) if self.metric != NATS and self.examples else 0.0

    def beside(self, sign: str, bound: float) -> str:
        """`57.4 ≤ 57.5`"""
        return f"{self.value:z.3f} {sign} {bound}" if self.metric == NATS else f"{self.value:.1f} {sign} {bound:.1f}"


def level(says: str) -> Callable[[Callable[..., Said | None]], Rule]:
    """Makes a rule of a judge that looks at one level, and at the highest of all rows in its column; None: it was not run.

    Each of the `columns` of each of the `rows` must pass: the worst of them decides.
    """

    def made(judge: Callable[..., Said | None]) -> Rule:
        def look(test: Test, scale: Scale, *, rows: Sequence[str], **options: Any) -> Verdict:
            verdicts, figures = [], []
            for row in (row for row in scale.values if row in rows):
                for column in test.columns or ():
                    # A table may be made without a column that its file checks, or without a row.
                    levels = {name: _level(found[column]) for name, found in scale.values.items() if column in found}
                    best = max(levels.values(), key=lambda each: each.value, default=None)
                    of_row = levels.get(row)
                    is_run = of_row is not None and (of_row.metric == NATS or of_row.examples)
                    verdict, said = (judge(of_row, best, **options) if is_run else None) or (NOT_RUN, NOT_RUN)
                    verdicts.append(verdict)
                    figures.append(f"{row} {column} {said}")
            # A failed one settles a claim whatever is missing; a missing one leaves it open whatever holds.
            worst = next((word for word in (FAILS, NOT_RUN, UNDECIDED, HOLDS) if word in verdicts), NOT_RUN)
            return Verdict(worst, ", ".join(figures))

        return Rule(look, {"rows": Parameter.empty, **options_of(judge)}, says, each_scale)

    return made


def _level(values: Sequence[Value]) -> Level:
    first = values[0]
    return Level(fmean(each.value for each in values), first.majority, first.examples, first.metric)


@level("at most {bound}: {rows}")
def at_most(found: Level, best: Level, *, bound: float | str) -> Said | None:
    """At most the bound, a number; or with `chance` at most three standard errors above it."""
    if bound == CHANCE and found.chance is None:
        return None
    # Half of all guessers score above chance on a given set of examples.
    chance = found.chance or 0.0
    most = chance + WIDTH * found.error(chance) if bound == CHANCE else float(bound)
    return (HOLDS, found.beside("≤", most)) if found.value <= most else (FAILS, found.beside(">", most))


@level("at least {bound}: {rows}")
def at_least(found: Level, best: Level, *, bound: float) -> Said:
    """At least the bound; undecided while it is less by no more than three standard errors of the score."""
    if found.value >= bound:
        return HOLDS, found.beside("≥", bound)
    is_close = found.value + WIDTH * found.error(found.value) >= bound
    return UNDECIDED if is_close else FAILS, found.beside("<", bound)


@level("near the best row: {rows}")
def near_best(found: Level, best: Level) -> Said:
    """No more than three standard errors of the difference below the best row."""
    # Of a difference of independent scores: rows answer the same examples, so that it is rather too wide.
    margin = WIDTH * hypot(found.error(found.value), found.error(best.value))
    verdict = HOLDS if best.value - found.value <= margin else FAILS
    return verdict, f"{found.value:.1f}, best {best.value:.1f} (margin {margin:.1f})"
