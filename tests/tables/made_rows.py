"""Rows of a table, made from the scores of their seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relpos.tables.columns import statistics
from relpos.tables.experiment import Experiment

SPREAD = [-1.0, -0.6, -0.4, -0.2, 0.0, 0.0, 0.2, 0.4, 0.6, 1.0]


def around(mean: float, by: float = 1.0) -> list[float]:
    return [mean + by * one for one in SPREAD]


def column(values: list[float], printed: float | None = None, examples: int = 400) -> dict[str, Any]:
    more = {"seeds": list(range(len(values))), "n_failed": 0, "n_missing": 0, "n_collapsed": 0, "majority": 50.0}
    return statistics(values) | more | {"examples": examples, "metric": "accuracy", "printed": printed}


def row(name: str, values: list[float], words: list[str]) -> dict[str, Any]:
    return {"name": name, "words": words, "columns": {"rte": column(values)}, "mean": column(values) | {"of": ["rte"]}}


def experiment(**changes: Any) -> Experiment:
    return Experiment(**{"name": "t", "folder": Path(), "question": "?", "rows": {}, "tasks": ["rte"]} | changes)
