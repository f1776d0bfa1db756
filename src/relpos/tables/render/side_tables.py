"""Further tables of the same rows: differences to the baseline row, and the held-out loss at other lengths."""

from __future__ import annotations

from typing import Any

from relpos.tables.render.view import MISSING, columns_of, heads_of, signed

DELTA = "Δ (Δ%: share of the errors; * p < 0.05, Holm) to the baseline row"
LENGTHS = "held-out loss at length"
Texts = list[list[str]]
"""A head, whose first cell says what the table shows, and a line a row."""


def further(rows: list[dict[str, Any]]) -> list[Texts]:
    """Those that there is anything to show in."""
    return [table for table in (differences(rows), lengths(rows)) if table]


def differences(rows: list[dict[str, Any]]) -> Texts:
    """`+2.1 (+3.4 %) *`: ours minus the baseline row's, the relative error reduction; a star where Holm's p is below 0.05."""
    names = columns_of(rows)
    columns = [[*(row["columns"].get(name, {}) for name in names), row["mean"]] for row in rows]
    if all(column.get("delta") is None for line in columns for column in line):
        return []
    return [[DELTA, *heads_of(names)], *([row["name"], *map(_delta, line)] for row, line in zip(rows, columns, strict=True))]


def lengths(rows: list[dict[str, Any]]) -> Texts:
    """Nats per predicted token."""
    found = list(dict.fromkeys(length for row in rows for length in row.get("heldout_by_length", ())))
    return [[LENGTHS, *found], *([row["name"], *(_loss(row, length) for length in found)] for row in rows)] if found else []


def _delta(column: dict[str, Any]) -> str:
    if column.get("delta") is None:
        return MISSING
    clear = column.get("delta_p_holm") is not None and column["delta_p_holm"] < 0.05
    share = f" ({signed(column['delta_percent'])} %)" if column.get("delta_percent") is not None else ""
    return f"{signed(column['delta'])}{share}{' *' if clear else ''}"


def _loss(row: dict[str, Any], length: str) -> str:
    value = row.get("heldout_by_length", {}).get(length)
    return MISSING if value is None else f"{value:.3f}"
