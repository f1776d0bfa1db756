"""What the GLUE server answered: kept beside the table in `scores.json`, shown in it as `test`. Scores are × 100."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from relpos.tables.columns import GLUE

COLUMNS = (*GLUE, "wnli", "ax")
SIGNED = ("cola", "stsb", "ax")
"""Correlations: they may be below zero."""
FILE = "scores.json"


def read_scores(folder: Path) -> dict[str, Any]:
    """Row → what is recorded of it; empty where nothing is."""
    try:
        return dict(json.loads((folder / FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}


def with_scores(rows: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """The rows with what the server answered: each column's in its `test`, their mean in that of the mean, all in the row's own."""
    recorded = read_scores(folder)
    return [_with(row, recorded[row["name"]]["scores"]) if row["name"] in recorded else row for row in rows]


def _with(row: dict[str, Any], scores: dict[str, float]) -> dict[str, Any]:
    columns = {name: column | ({"test": scores[name]} if name in scores else {}) for name, column in row["columns"].items()}
    mean = row["mean"] | {"test": _mean(scores, row["mean"].get("of") or GLUE)}
    test = {name: scores[name] for name in COLUMNS if name in scores} | {"glue": _mean(scores, GLUE)}
    return row | {"columns": columns, "mean": mean, "test": test}


def _mean(scores: dict[str, float], names: Iterable[str]) -> float | None:
    """None where one of them is missing."""
    found = [scores.get(name) for name in names]
    known = [score for score in found if score is not None]
    return sum(known) / len(known) if len(known) == len(found) else None
