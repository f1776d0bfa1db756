"""Verdicts follow from numbers."""

from __future__ import annotations

from typing import Any

import pytest

from relpos.tables.checks import evaluate, standard_error


def column(mean: float | None, metric: str = "accuracy", majority: float = 50.0) -> dict[str, Any]:
    return {"mean": mean, "metric": metric, "majority": majority, "examples": 400}


def verdict(check: dict[str, Any], **means: float | None) -> str:
    rows = [{"name": name, "columns": {"rte": column(mean)}} for name, mean in means.items()]
    return evaluate([{"says": "so", "columns": ["rte"], "rows": ["none"]} | check], rows)[0]["verdict"]


def test_standard_errors() -> None:
    assert standard_error(column(50.0), 50.0) == pytest.approx(2.5, abs=0.01)
    assert standard_error(column(0.0, "matthews"), 0.0) == 5.0
    assert standard_error(column(100.0), 100.0) > 0  # all of 400 right is not certainty


def test_at_most_chance_allows_three_standard_errors() -> None:
    assert verdict({"at_most": "chance"}, none=57.4) == "holds"
    assert verdict({"at_most": "chance"}, none=57.6) == "fails"


def test_at_least_is_undecided_within_three_standard_errors() -> None:
    assert verdict({"at_least": 85}, none=85.0) == "holds"
    assert verdict({"at_least": 85}, none=81.0) == "undecided"
    assert verdict({"at_least": 85}, none=70.0) == "fails"


def test_near_the_best_row() -> None:
    assert verdict({"near": "best"}, none=88.0, fixed=92.0) == "holds"
    assert verdict({"near": "best"}, none=80.0, fixed=92.0) == "fails"
    assert verdict({"near": "best"}, none=80.0, fixed=None) == "holds"


def test_what_was_not_run_is_not_decided() -> None:
    assert verdict({"at_most": "chance"}, none=None) == "not run"
    assert verdict({"at_most": "chance"}, fixed=50.0) == "not run"
