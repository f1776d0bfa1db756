"""What a table's numbers should show, as data in the experiment file, and whether they do.

    says: …                              the sentence
    rows: [none]    columns: [cola, …]   every cell of these is held to one of:
    at_most: chance                      ≤ chance + 3 standard errors
    at_least: 85                         ≥ the number; undecided while it is less by no more than 3 standard errors of the score
    near: best                           no more than 3 standard errors of the difference below the best row

The standard error is that of a score on the column's dev examples, see `relpos.results.statistics.standard_error`. Chance is the
score of the best constant answer, 0 for correlations, 50 for minimal pairs. A shuffle gap is in nats: its bound is a number, and
it has no standard error here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot

from relpos import ranges
from relpos.errors import RelposError, refuse_unknown
from relpos.measures.measure import measured_columns
from relpos.results.statistics import standard_error
from relpos.tables.row import NATS, Column, Row
from relpos.tables.verdict import FAILS, HOLDS, NOT_RUN, UNDECIDED

WIDTH = 3.0
"""Standard errors that a score may be on the wrong side of a bound."""
CHANCE, BEST = "chance", "best"


@dataclass(frozen=True)
class Check:
    """What some cells should show; exactly one of the three bounds is given.

    Args:
        says: the sentence that the numbers should bear out.
        rows: whose cells are checked.
        columns: of these rows.
        at_most: a score, or `chance`.
        at_least: a score.
        near: `best`.
    """

    says: str
    rows: list[str]
    columns: list[str]
    at_most: float | str | None = None
    at_least: float | None = None
    near: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome of a check: holds, fails, undecided or not run, and the numbers that decide."""

    says: str
    verdict: str
    figures: str


KEYS = tuple(Check.__dataclass_fields__)


def parse(checks: Sequence[object], where: str, rows: Sequence[str]) -> list[Check]:
    """The checks of an experiment file.

    Args:
        checks: as YAML gives them.
        where: the file, for the message.
        rows: names of the file's rows.

    Raises:
        RelposError: names the check, and the key or the row that is wrong.

    >>> parse([{"says": "no order, no CoLA", "rows": ["none"], "columns": ["cola"], "at_most": "chance"}], "t.yaml", ["none"])[0]
    Check(says='no order, no CoLA', rows=['none'], columns=['cola'], at_most='chance', at_least=None, near=None)
    """
    return [_parsed(check, f"{where}: check {number}", rows) for number, check in enumerate(checks, start=1)]


def _parsed(check: object, place: str, rows: Sequence[str]) -> Check:
    if not isinstance(check, Mapping) or not all(check.get(key) for key in ("says", "rows", "columns")):
        raise RelposError(f"{place}: says, rows and columns are needed")
    for key in check:
        refuse_unknown(f"{place}: unknown key", key, KEYS)
    for key, value in check.items():
        # By the same annotations as the file's other keys: `rows: none` is a word, whose letters are no rows.
        ranges.check(f"{place}: {key}", value, ranges.rules(Check)[key])
    for row in check["rows"]:
        refuse_unknown(f"{place}: unknown row", row, rows)
    bounds = [(key, check[key]) for key in ("at_most", "at_least", "near") if key in check]
    if len(bounds) != 1 or not _is_bound(*bounds[0]):
        raise RelposError(f"{place}: one of at_most: chance or a number, at_least: a number, near: best is needed")
    word, measured = check[bounds[0][0]], measured_columns()
    in_nats = [name for name in check["columns"] if name in measured and measured[name][1].metric == NATS]
    if isinstance(word, str) and in_nats:
        raise RelposError(f"{place}: {bounds[0][0]}: {word}: {in_nats[0]} is in nats; its bound is a number")
    return Check(**check)


def _is_bound(key: str, bound: object) -> bool:
    word = {"at_most": CHANCE, "near": BEST}.get(key)
    return (word is not None and bound == word) or (key != "near" and isinstance(bound, int | float))


def evaluate(checks: Sequence[Check], rows: Sequence[Row]) -> list[Outcome]:
    """The outcome of each check: the worst of its cells decides. A cell of a column that the table does not have was not run."""
    return [_outcome(check, rows) for check in checks]


def _outcome(check: Check, rows: Sequence[Row]) -> Outcome:
    verdicts, figures = [], []
    for row in rows:
        for name in check.columns if row.name in check.rows else ():
            # `tasks=` leaves columns out that the file checks: refused here, behind the training, it would cost the table.
            column = row.columns.get(name, Column())
            verdict, said = _cell(check, column, [other.columns[name] for other in rows if name in other.columns])
            verdicts.append(verdict)
            figures.append(f"{row.name} {name} {said}")
    # A failed cell settles a check whatever is missing; a missing one leaves it open whatever holds.
    worst = next((word for word in (FAILS, NOT_RUN, UNDECIDED, HOLDS) if word in verdicts), NOT_RUN)
    return Outcome(check.says, worst, ", ".join(figures))


def _cell(check: Check, column: Column, all_rows: Sequence[Column]) -> tuple[str, str]:
    """The verdict on one cell, and its figures; `all_rows` is the same column of every row."""
    value, chance, examples = column.mean, column.majority, column.examples
    if value is None or (column.is_score and examples is None) or (check.at_most == CHANCE and chance is None):
        return NOT_RUN, NOT_RUN

    def error(score: float) -> float:
        return standard_error(score, examples, column.metric or "") if column.is_score and examples else 0.0

    def compared(sign: str, bound: float) -> str:
        return f"{value:.1f} {sign} {bound:.1f}" if column.is_score else f"{value:z.3f} {sign} {bound}"

    if check.at_most is not None:
        # Half of all guessers score above chance on a given set of examples.
        most = (chance or 0.0) + WIDTH * error(chance or 0.0) if check.at_most == CHANCE else float(check.at_most)
        return (HOLDS, compared("≤", most)) if value <= most else (FAILS, compared(">", most))
    if check.at_least is not None:
        if value >= check.at_least:
            return HOLDS, compared("≥", check.at_least)
        is_close = value + WIDTH * error(value) >= check.at_least
        return UNDECIDED if is_close else FAILS, compared("<", check.at_least)
    best = max(other.mean for other in all_rows if other.mean is not None)
    # Of a difference of independent scores: rows answer the same examples, so that it is rather too wide.
    margin = WIDTH * hypot(error(value), error(best))
    return HOLDS if best - value <= margin else FAILS, f"{value:.1f}, best {best:.1f} (margin {margin:.1f})"
