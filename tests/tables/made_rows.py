"""Rows of a table, made from the scores of their seeds."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from relpos.tables.experiment import Experiment
from relpos.tables.rows import summary
from relpos.tables.table import Column, Row

SPREAD = [-1.0, -0.6, -0.4, -0.2, 0.0, 0.0, 0.2, 0.4, 0.6, 1.0]


def around(mean: float, by: float = 1.0) -> list[float]:
    return [mean + by * deviation for deviation in SPREAD]


def column(values: list[float], examples: int = 400) -> Column:
    return replace(
        summary({(0, seed): value for seed, value in enumerate(values)}),
        majority=50.0,
        examples=examples,
        metric="accuracy",
    )


def row(name: str, values: list[float], *overrides: str) -> Row:
    return _row(name, column(values), overrides)


def of_pretrainings(name: str, values: list[float], *overrides: str) -> Row:
    """A row whose scores are those of as many pre-trainings."""
    seeds = [(place, 0) for place in range(len(values))]
    return _row(name, replace(column(values), seeds=seeds), overrides)


def _row(name: str, scores: Column, overrides: Iterable[str]) -> Row:
    return Row(name, [*overrides], columns={"rte": scores}, mean=replace(scores, of=["rte"]))


def experiment(**changes: Any) -> Experiment:
    return Experiment(
        **{"file": Path("t.yaml"), "question": "?", "rows": {}, "tasks": ["rte"]} | changes
    )
