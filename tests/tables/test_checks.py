"""Verdicts follow from numbers."""

from typing import Any

import pytest

from relpos.errors import RelposError
from relpos.results.statistics import standard_error
from relpos.tables.checks import evaluate, parse
from relpos.tables.row import Column, Row


def verdict(check: dict[str, Any], **means: float | None) -> str:
    rows = [
        Row(name, columns={"rte": Column(mean=mean, metric="accuracy", majority=50.0, examples=400)})
        for name, mean in means.items()
    ]
    checks = parse([{"says": "so", "columns": ["rte"], "rows": ["none"]} | check], "t.yaml", ["none"])
    return evaluate(checks, rows)[0].verdict


def test_standard_errors() -> None:
    assert standard_error(50.0, 400, "accuracy") == pytest.approx(2.5, abs=0.01)
    assert standard_error(0.0, 400, "matthews") == 5.0
    assert standard_error(100.0, 400, "accuracy") > 0  # all of 400 right is not certainty


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


def test_a_number_needs_no_chance() -> None:
    rows = [Row("none", columns={"exact": Column(mean=20.0, metric="accuracy", examples=400)})]
    for bound, outcome in (({"at_most": 30}, "holds"), ({"at_least": 30}, "fails"), ({"at_most": "chance"}, "not run")):
        check = parse([{"says": "so", "columns": ["exact"], "rows": ["none"]} | bound], "t.yaml", ["none"])
        assert evaluate(check, rows)[0].verdict == outcome


def test_what_was_not_run_is_not_decided() -> None:
    assert verdict({"at_most": "chance"}, none=None) == "not run"
    assert verdict({"at_most": "chance"}, fixed=50.0) == "not run"


def test_a_column_that_the_table_was_made_without_was_not_run() -> None:
    checks = parse([{"says": "so", "columns": ["rte", "sst2"], "rows": ["none"], "near": "best"}], "t.yaml", ["none"])
    rows = [Row("none", columns={"rte": Column(mean=60.0, metric="accuracy", examples=400)})]
    [outcome] = evaluate(checks, rows)
    assert outcome.verdict == "not run"
    assert outcome.figures.endswith("none sst2 not run")


@pytest.mark.parametrize(("wrong", "said"), [
    ({"rows": "none"}, "t.yaml: check 1: rows=none: a list"),
    ({"rows": 5}, "t.yaml: check 1: rows=5: a list"),
    ({"columns": "rte"}, "t.yaml: check 1: columns=rte: a list"),
    ({"says": True}, "t.yaml: check 1: says=true: a word"),
])  # fmt: skip
def test_a_value_of_a_wrong_kind_is_one_line(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(RelposError, match=said):
        parse([{"says": "so", "columns": ["rte"], "rows": ["none"], "at_most": 1} | wrong], "t.yaml", ["none"])
