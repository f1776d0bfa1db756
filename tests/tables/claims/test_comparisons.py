"""Every test of a claim comes out each way."""

from __future__ import annotations

from typing import Any

import pytest

from relpos.tables.claims.columns import LosesLessThanOthers, SuffersMost
from relpos.tables.claims.comparisons import About, Higher, NotHigher, NotLower, Signs
from relpos.tables.claims.finding import Finding
from relpos.tables.claims.scales import Scores
from relpos.tables.claims.trends import Falls, HigherAtLargest, Shrinks, Steady
from relpos.tables.table import GLUE
from tables.claims.made_up import around, glue, scale, scales


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1
    return found[0]


def verdict(test: Any, **means: float) -> str:
    """Of one scale with these rows; the first keeps the order of the seeds, the others turn it round."""
    rows = {row: glue(mean, 1 if place == 0 else -1) for place, (row, mean) in enumerate(means.items())}
    return only(test.findings(scales(scale(rows)))).verdict


PAIR = [["new", "old"]]


@pytest.mark.parametrize(("gain", "expected"), [(2.0, "holds"), (-2.0, "fails"), (0.1, "undecided"), (-0.1, "undecided")])
def test_higher(gain: float, expected: str) -> None:
    assert verdict(Higher(PAIR), new=60 + gain, old=60.0) == expected


def test_higher_asks_all_pairs_and_fails_with_one() -> None:
    test = Higher([["new", "old"], ["newer", "old"]])
    assert verdict(test, new=63.0, newer=64.0, old=60.0) == "holds"
    assert verdict(test, new=63.0, newer=57.0, old=60.0) == "fails"
    assert verdict(test, new=63.0, newer=60.0, old=60.0) == "undecided"


def test_a_row_that_is_not_there_is_named() -> None:
    found = only(Higher([["new", "old"], ["newer", "old"]]).findings(scales(scale({"new": glue(63.0), "old": glue(60.0, -1)}))))
    assert found.verdict == "not run"
    assert "no scores of newer" in found.figures
    assert "new − old +3.0 [" in found.figures
    assert Higher(PAIR).findings(scales()) == []


def test_one_run_each_decides_nothing() -> None:
    found = only(Higher(PAIR).findings(scales(scale({"new": {"cola": [40.0]}, "old": {"cola": [1.0]}}))))
    assert (found.verdict, found.figures) == ("undecided", "new − old +39.0 (one run each) in cola")


def test_a_column_at_the_constant_answer_says_nothing() -> None:
    made = scale({"new": {"rte": around(53.0), "cola": around(30.0)}, "old": {"rte": around(50.0), "cola": around(20.0, -1)}})
    for row in ("new", "old"):
        made.scores[row]["rte"].metric, made.scores[row]["rte"].majority, made.scores[row]["rte"].examples = "accuracy", 52.7, 277
    found = only(Higher(PAIR).findings(scales(made)))
    assert found.figures.startswith("new − old +10.0 [")
    assert found.figures.endswith("in cola")
    assert only(Higher(PAIR, "rte").findings(scales(made))).verdict == "undecided"


def test_several_pre_trainings_are_the_units() -> None:
    made = scale({"new": {}, "old": {}})
    for row, shift in (("new", 1.0), ("old", 0.0)):
        values = {(p, s): 50 + shift * (1 + 0.2 * p) + s for p in range(3) for s in range(4)}
        made.scores[row]["cola"] = Scores(values)
    found = only(Higher(PAIR).findings(scales(made)))
    assert found.verdict == "holds"
    assert "over 3 pre-training seeds" in found.figures


@pytest.mark.parametrize(("gain", "expected"), [(-1.0, "holds"), (-0.3, "holds"), (2.0, "fails"), (0.35, "undecided")])
def test_not_higher(gain: float, expected: str) -> None:
    assert verdict(NotHigher(PAIR, bound=0.5), new=60 + gain, old=60.0) == expected
    assert verdict(NotLower(PAIR, bound=0.5), new=60 - gain, old=60.0) == expected


@pytest.mark.parametrize(("gain", "expected"), [(1.0, "holds"), (4.0, "fails"), (-1.0, "fails"), (1.9, "undecided")])
def test_about(gain: float, expected: str) -> None:
    assert verdict(About(PAIR, value=1.0, bound=1.0), new=60 + gain, old=60.0) == expected


@pytest.mark.parametrize(
    ("up", "down", "expected"), [(5, 0, "holds"), (9, 0, "holds"), (4, 5, "fails"), (4, 0, "undecided"), (4, 2, "undecided")]
)
def test_signs(up: int, down: int, expected: str) -> None:
    shift = [2.0] * up + [-2.0] * down + [0.0] * (9 - up - down)
    new = {name: around(60 + by) for name, by in zip(GLUE, shift, strict=True)}
    found = only(Signs(PAIR, at_least=5, of=9).findings(scales(scale({"new": new, "old": glue(60.0, -1)}))))
    assert found.verdict == expected
    assert f"({up} clearly above, {down} clearly below)" in found.figures


def test_signs_ask_for_the_same_share_of_fewer_columns() -> None:
    new, old = {"cola": around(60.0), "rte": around(60.0)}, {"cola": around(58.0, -1), "rte": around(60.1, -1)}
    assert only(Signs(PAIR, at_least=5, of=9).findings(scales(scale({"new": new, "old": old})))).verdict == "undecided"
    assert only(Signs(PAIR, at_least=4, of=9).findings(scales(scale({"new": new, "old": old})))).verdict == "holds"


@pytest.mark.parametrize(("cola", "expected"), [(30.0, "holds"), (59.0, "fails"), (57.0, "undecided")])
def test_suffers_most(cola: float, expected: str) -> None:
    made = scale({"with": glue(60.0), "without": glue(57.0, -1, cola=cola)})
    assert only(SuffersMost("with", "without", "cola").findings(scales(made))).verdict == expected


@pytest.mark.parametrize(("stsb", "expected"), [(59.5, "holds"), (40.0, "fails"), (57.0, "undecided")])
def test_loses_less_than_others(stsb: float, expected: str) -> None:
    made = scale({"with": glue(60.0), "without": glue(57.0, -1, stsb=stsb)})
    for column in made.scores["without"].values():  # losses that vary from seed to seed
        column.values = {seed: value + (seed[1] - 2) * 0.3 for seed, value in column.values.items()}
    made.scores["without"]["stsb"].values = {s: v - (s[1] - 2) * 0.5 for s, v in made.scores["without"]["stsb"].values.items()}
    assert only(LosesLessThanOthers("with", "without", "stsb").findings(scales(made))).verdict == expected


@pytest.mark.parametrize(("large", "expected"), [(0.2, "holds"), (9.0, "fails"), (4.1, "undecided")])
def test_shrinks(large: float, expected: str) -> None:
    small = scale({"new": glue(64.0), "old": glue(60.0, -1)})
    big = scale({"new": glue(80 + large), "old": glue(80.0, -1)}, size=4)
    test = Shrinks("new", "old")
    assert only(test.findings(scales(small, big))).verdict == expected
    assert test.findings(scales(small)) == []
    assert test.findings(scales(small, scale(big.scores and {"new": glue(1.0), "old": glue(1.0)}, store="other-1", size=4))) == []


def test_higher_at_the_largest_size_looks_there_alone() -> None:
    small = scale({"new": glue(64.0), "old": glue(60.0, -1)})
    big = scale({"new": glue(70.0), "old": glue(80.0, -1)}, size=4)
    assert only(HigherAtLargest(PAIR).findings(scales(small, big))).verdict == "fails"
    assert HigherAtLargest(PAIR).findings(scales(small)) == []


@pytest.mark.parametrize(("slope", "expected"), [(-1.0, "holds"), (1.0, "fails"), (0.0, "undecided")])
def test_falls(slope: float, expected: str) -> None:
    found = [scale({"new": glue(65 + slope * power), "old": glue(60.0, -1)}, pairs=1000 * 2**power) for power in range(4)]
    assert only(Falls("new", "old").findings(scales(*found))).verdict == expected


@pytest.mark.parametrize(("last", "expected"), [(61.0, "holds"), (64.0, "fails"), (61.4, "undecided")])
def test_steady(last: float, expected: str) -> None:
    steps = {1: "one", 3: "three", 5: "five"}
    rows = {"one": glue(61.0), "three": glue((61.0 + last) / 2), "five": glue(last), "old": glue(60.0, -1)}
    assert only(Steady(steps, "old", bound=1.0).findings(scales(scale(rows)))).verdict == expected
    del rows["three"]
    assert only(Steady(steps, "old").findings(scales(scale(rows)))).verdict == "not run"
