"""Rows of a table, made from the scores of their seeds."""

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


def row(name: str, values: list[float], overrides: list[str]) -> Row:
    return Row(
        name, overrides, columns={"rte": column(values)}, mean=replace(column(values), of=["rte"])
    )


def of_pretrainings(name: str, values: list[float], overrides: list[str]) -> Row:
    """A row whose scores are those of as many pre-trainings."""
    scores = replace(column(values), seeds=[(place, 0) for place in range(len(values))])
    return Row(name, overrides, columns={"rte": scores}, mean=replace(scores, of=["rte"]))


def experiment(**changes: Any) -> Experiment:
    return Experiment(
        **{"file": Path("t.yaml"), "question": "?", "rows": {}, "tasks": ["rte"]} | changes
    )
