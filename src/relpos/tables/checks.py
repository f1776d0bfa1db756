"""What a table's numbers should show, as data in the experiment file, and whether they do.

    says: …                              the sentence
    rows: [none]    columns: [cola, …]   every cell of these is held to one of:
    at_most: chance                      ≤ chance + 3 standard errors
    at_least: 85                         ≥ the number; undecided while it lies within 3 standard errors above
    near: best                           no more than 3 standard errors of the difference below the best row

The standard error is that of a score on so many dev examples: binomial, 100·√(p(1−p)/n), for accuracies; 100/√n, that
of no correlation, for correlations. Chance is the score of the best constant answer, 0 for correlations.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from relpos.errors import RelposError, nearest

WIDTH = 3.0
"""Standard errors."""
KEYS = ("says", "rows", "columns", "at_most", "at_least", "near")
Rows = list[dict[str, Any]]
Held = tuple[str, str]
"""A verdict on one cell, and its figures."""


def evaluate(checks: list[dict[str, Any]], rows: Rows) -> list[dict[str, str]]:
    """`says`, `verdict` (holds, fails, undecided, not run) and `figures` of each check.

    Raises:
        RelposError: a check names what the table does not have.
    """
    return [_check(check, rows) for check in checks]


def validate(checks: list[Any], where: str, rows: list[str]) -> None:
    """Refuses what is no check.

    Raises:
        RelposError: names the key or the row.
    """
    for number, check in enumerate(checks, start=1):
        place = f"{where}: check {number}"
        if not isinstance(check, dict) or not all(check.get(key) for key in ("says", "rows", "columns")):
            raise RelposError(f"{place}: says, rows and columns are needed")
        for key in check:
            if key not in KEYS:
                raise RelposError(f"{place}: unknown key {key!r}.{nearest(str(key), KEYS)}")
        for row in check["rows"]:
            if row not in rows:
                raise RelposError(f"{place}: unknown row {row!r}.{nearest(str(row), rows)}")
        bounds = [(key, check[key]) for key in ("at_most", "at_least", "near") if key in check]
        if len(bounds) != 1 or not _is_bound(*bounds[0]):
            raise RelposError(f"{place}: one of at_most: chance or a number, at_least: a number, near: best is needed")


def _is_bound(key: str, bound: Any) -> bool:
    return bound == {"at_most": "chance", "near": "best"}.get(key) or (key != "near" and isinstance(bound, int | float))


def _check(check: dict[str, Any], rows: Rows) -> dict[str, str]:
    held: list[Held] = []
    for row in rows:
        for name in check["columns"] if row["name"] in check["rows"] else ():
            if name not in row["columns"]:
                raise RelposError(f"check {check['says']!r}: unknown column {name!r}.{nearest(name, row['columns'])}")
            verdict, figures = _cell(check, name, row, rows)
            held.append((verdict, f"{row['name']} {name} {figures}"))
    verdicts = {verdict for verdict, _ in held} or {"not run"}
    verdict = next(word for word in ("fails", "not run", "undecided", "holds") if word in verdicts)
    return {"says": check["says"], "verdict": verdict, "figures": ", ".join(figures for _, figures in held)}


def _cell(check: dict[str, Any], name: str, row: dict[str, Any], rows: Rows) -> Held:
    column = row["columns"][name]
    value = column["mean"]
    if value is None:
        return "not run", "not run"
    if "at_most" in check:
        chance = float(column["majority"])
        limit = chance + WIDTH * standard_error(column, chance)
        bound = limit if check["at_most"] == "chance" else float(check["at_most"])
        return ("holds", f"{value:.1f} ≤ {bound:.1f}") if value <= bound else ("fails", f"{value:.1f} > {bound:.1f}")
    if "at_least" in check:
        bound = float(check["at_least"])
        if value >= bound:
            return "holds", f"{value:.1f} ≥ {bound:.1f}"
        undecided = value + WIDTH * standard_error(column, value) >= bound
        return "undecided" if undecided else "fails", f"{value:.1f} < {bound:.1f}"
    others = [other["columns"][name] for other in rows]
    best = max((other for other in others if other["mean"] is not None), key=lambda other: float(other["mean"]))
    margin = WIDTH * sqrt(standard_error(column, value) ** 2 + standard_error(best, best["mean"]) ** 2)
    figures = f"{value:.1f}, best {best['mean']:.1f} (margin {margin:.1f})"
    return "holds" if best["mean"] - value <= margin else "fails", figures


def standard_error(column: dict[str, Any], score: float) -> float:
    """Of a score × 100 on the dev set of a column."""
    n = column["examples"]
    if "accuracy" not in column["metric"]:
        return 100 / sqrt(n)
    share = (score / 100 * n + 1) / (n + 2)  # Laplace: 100 % of n examples is not certainty
    return 100 * sqrt(share * (1 - share) / n)
