"""Rules about levels: what the scores of rows are held to. `checks:` of an experiment file are such claims about its rows.

The standard error is that of a score on the column's dev examples, see `relpos.results.statistics.standard_error`. Chance is the
score of the best constant answer, 0 for correlations, 50 for minimal pairs. A figure in nats has no standard error here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from inspect import Parameter
from math import hypot
from statistics import fmean
from typing import Any

from relpos.claims.rule import Rule, Test, rule
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


def level(says: str) -> Callable[[Callable[..., Said | None]], Rule]:
    """Makes a rule of a judge that looks at one level, the mean of a row in a column, and at the highest of all rows there; it
    returns None for what was not run.

    Each of the `columns` of each of the `rows` must pass: the worst of them decides.
    """

    def made(judge: Callable[..., Said | None]) -> Rule:
        @wraps(judge)
        def look(test: Test, scale: Scale, *, rows: Sequence[str], **options: Any) -> Verdict:
            verdicts, figures = [], []
            for row in (row for row in scale.values if row in rows):
                for column in test.columns or ():
                    # A table may be made without a column that its file checks, or without a row.
                    units = scale.by_seed([column]).items()
                    levels = {name: replace(scale.values[name][column][0], value=fmean(some.values())) for name, some in units}
                    best = max(levels.values(), key=lambda each: each.value, default=None)
                    of_row = levels.get(row)
                    is_run = of_row is not None and (of_row.metric == NATS or of_row.examples)
                    verdict, said = (judge(of_row, best, **options) if is_run else None) or (NOT_RUN, NOT_RUN)
                    verdicts.append(verdict)
                    figures.append(f"{row} {column} {said}")
            # A failed one settles a claim whatever is missing; a missing one leaves it open whatever holds.
            worst = next((word for word in (FAILS, NOT_RUN, UNDECIDED, HOLDS) if word in verdicts), NOT_RUN)
            return Verdict(worst, ", ".join(figures))

        of_judge = rule(says)(look)
        return replace(of_judge, options={"rows": Parameter.empty, **of_judge.options})

    return made


def _error(found: Value, score: float) -> float:
    """The standard error of such a score on the examples of a column."""
    return standard_error(score, found.examples, found.metric) if found.metric != NATS and found.examples else 0.0


def _beside(found: Value, sign: str, bound: float) -> str:
    """`57.4 ≤ 57.5`"""
    return f"{found.value:z.3f} {sign} {bound}" if found.metric == NATS else f"{found.value:.1f} {sign} {bound:.1f}"


@level("at most {bound}: {rows}")
def at_most(found: Value, best: Value, *, bound: float | str) -> Said | None:
    """At most the bound, a number; or with `chance` at most three standard errors above it."""
    if bound == CHANCE and found.majority is None:
        return None
    # Half of all guessers score above chance on a given set of examples.
    chance = found.majority or 0.0
    most = chance + WIDTH * _error(found, chance) if bound == CHANCE else float(bound)
    return (HOLDS, _beside(found, "≤", most)) if found.value <= most else (FAILS, _beside(found, ">", most))


@level("at least {bound}: {rows}")
def at_least(found: Value, best: Value, *, bound: float) -> Said:
    """At least the bound; undecided while it is less by no more than three standard errors of the score."""
    if found.value >= bound:
        return HOLDS, _beside(found, "≥", bound)
    is_close = found.value + WIDTH * _error(found, found.value) >= bound
    return UNDECIDED if is_close else FAILS, _beside(found, "<", bound)


@level("near the best row: {rows}")
def near_best(found: Value, best: Value) -> Said:
    """No more than three standard errors of the difference below the best row."""
    # Of a difference of independent scores: rows answer the same examples, so that it is rather too wide.
    margin = WIDTH * hypot(_error(found, found.value), _error(found, best.value))
    verdict = HOLDS if best.value - found.value <= margin else FAILS
    return verdict, f"{found.value:.1f}, best {best.value:.1f} (margin {margin:.1f})"
