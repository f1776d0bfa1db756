"""Trends over sizes, amounts of text and S come out each way, and compare like with like."""

from typing import Any

import pytest

from claims.made_up import JITTER, PAIR, STEPS, at_chance, glue, only, scale, scales
from relpos.claims.comparisons import higher
from relpos.claims.trends import falls, shrinks, steady
from relpos.results.values import GLUE


@pytest.mark.parametrize(("large", "expected"), [(0.2, "holds"), (9.0, "fails"), (4.1, "undecided")])
def test_shrinks(large: float, expected: str) -> None:
    small = scale({"new": glue(64.0), "old": glue(60.0, -1)})
    big = scale({"new": glue(80 + large), "old": glue(80.0, -1)}, size=4)
    test = shrinks(contrasts=PAIR)
    assert only(test.verdicts(scales(small, big))).verdict == expected
    assert test.verdicts(scales(small)) == []
    assert test.verdicts(scales(small, scale(big.values and {"new": glue(1.0), "old": glue(1.0)}, store="other-1", size=4))) == []


THREE = ("cola", "rte", "sst2")


def three(mean: float, order: int = 1, **others: float) -> dict[str, list[float]]:
    return {name: values for name, values in glue(mean, order, **others).items() if name in THREE}


def test_sizes_are_compared_in_the_same_columns() -> None:
    small = scale({"new": three(64.0), "old": three(60.0, -1)})
    big = scale({"new": three(60.0, sst2=84.0), "old": three(60.0, -1, sst2=80.0)}, size=4)
    found = only(shrinks(contrasts=PAIR).verdicts(scales(small, at_chance(big, "cola", "rte"))))
    assert found.verdict == "holds"
    assert found.figures.count("in the mean of cola, rte, sst2") == 2
    found = only(shrinks(contrasts=PAIR).verdicts(scales(at_chance(small, "rte"), big)))
    assert found.figures.count("in the mean of cola, sst2") == 2
    found = only(shrinks(contrasts=PAIR).verdicts(scales(at_chance(small, *THREE), at_chance(big, *THREE))))
    assert found.verdict == "not run"
    assert "at the constant answer in cola, rte, sst2" in found.figures


def test_every_s_is_compared_in_the_same_columns() -> None:
    made = scale({"one": three(60.0, cola=64.0), "five": three(64.0), "old": three(60.0, -1)})
    found = only(steady(**STEPS, bound=1.0, columns=THREE).verdicts(scales(at_chance(made, "rte", "sst2", rows=("one", "old")))))
    assert found.verdict == "fails"
    assert found.figures.count("in the mean of cola, rte, sst2") == 2


@pytest.mark.parametrize(
    ("key", "value", "alike"),
    [
        *[("pairs", 1000, False), ("length", 64, False), ("packing", "document", False), ("precision", "bf16", False)],
        *[("first", {"share": 0.9, "batch": 8, "length": 16}, False), ("steps", 500, True), ("batch", 64, True)],
        ("recipe", {"lr": 1}, True),
    ],
)
def test_sizes_differ_in_nothing_else_but_what_a_size_needs(key: str, value: Any, alike: bool) -> None:
    small = scale({"new": glue(64.0), "old": glue(60.0, -1)})
    big = scale({"new": glue(80.0), "old": glue(80.0, -1)}, size=4, **{key: value})
    found = shrinks(contrasts=PAIR).verdicts(scales(small, big))
    assert len(found) == alike
    assert all(each.scale.endswith("which differ in training, too") == (key in ("steps", "batch")) for each in found)
    assert len(higher(contrasts=PAIR, at="largest").verdicts(scales(small, big))) == alike


@pytest.mark.parametrize(("slope", "expected"), [(-1.0, "holds"), (1.0, "fails"), (0.0, "undecided")])
def test_falls(slope: float, expected: str) -> None:
    found = [scale({"new": glue(65 + slope * power), "old": glue(60.0, -1)}, pairs=1000 * 2**power) for power in range(4)]
    assert only(falls(contrasts=PAIR).verdicts(scales(*found))).verdict == expected


@pytest.mark.parametrize(("last", "expected"), [(61.0, "holds"), (64.0, "fails"), (61.4, "undecided")])
def test_steady(last: float, expected: str) -> None:
    steps: dict[str, Any] = {"contrasts": [[row, "old"] for row in ("one", "three", "five")], "at_s": [1, 3, 5]}
    rows = {"one": glue(61.0), "three": glue((61.0 + last) / 2), "five": glue(last, -1), "old": glue(60.0, -1)}
    assert only(steady(**steps, bound=0.8).verdicts(scales(scale(rows)))).verdict == expected
    del rows["three"]
    assert only(steady(**steps).verdicts(scales(scale(rows)))).verdict == "not run"


def test_what_a_seed_does_to_every_s_does_not_hide_a_trend() -> None:
    seeds = [-3.0, -1.0, 0.0, 1.0, 3.0]  # the same text and initial weights for every S
    rows = {"old": {name: [60.0 + by for by in seeds] for name in GLUE}}
    for row, gain, order in (("one", 1.0, 1), ("five", 3.0, -1)):
        rows[row] = {
            name: [60.0 + gain + by + jitter / 4 for by, jitter in zip(seeds, JITTER[::order], strict=True)] for name in GLUE
        }
    found = only(steady(**STEPS, bound=1.0).verdicts(scales(scale(rows))))
    assert found.verdict == "fails"
    assert "changes by +2.00 [" in found.figures
