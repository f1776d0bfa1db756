"""Rules that look at the columns one by one come out each way."""

from dataclasses import replace

import pytest

from claims.made_up import PAIR, STEPS, around, changed, glue, only, scale, scales
from relpos.claims.columns import gain_without_loss, loses_less_than_others, signs, suffers_most
from relpos.claims.comparisons import higher
from relpos.claims.trends import steady
from relpos.results.scale import seeds
from relpos.results.values import GLUE


@pytest.mark.parametrize(("up", "down", "expected"), [(9, 0, "holds"), (6, 3, "holds"), (4, 5, "fails"), (3, 2, "undecided")])
def test_signs_of_columns(up: int, down: int, expected: str) -> None:
    shift = [2.0] * up + [-2.0] * down + [0.0] * (9 - up - down)
    new = {name: around(60 + by) for name, by in zip(GLUE, shift, strict=True)}
    found = only(signs(contrasts=PAIR, at_least=5, of=9).verdicts(scales(scale({"new": new, "old": glue(60.0, -1)}))))
    assert found.verdict == expected
    assert f"({up} clearly above, {down} clearly below; 5 or more in" in found.figures


def test_signs_ask_for_the_same_share_of_fewer_columns() -> None:
    new, old = {"cola": around(60.0), "rte": around(60.0)}, {"cola": around(58.0, -1), "rte": around(60.1, -1)}
    assert only(signs(contrasts=PAIR, at_least=5, of=9).verdicts(scales(scale({"new": new, "old": old})))).verdict == "undecided"
    assert only(signs(contrasts=PAIR, at_least=4, of=9).verdicts(scales(scale({"new": new, "old": old})))).verdict == "holds"


@pytest.mark.parametrize(("cola", "rest", "expected"), [(60.0, 62.0, "holds"), (57.0, 62.0, "fails"), (60.0, 60.0, "undecided")])
def test_a_gain_without_a_clear_loss(cola: float, rest: float, expected: str) -> None:
    made = scales(scale({"new": glue(rest, cola=cola), "old": glue(60.0, -1)}))
    assert only(gain_without_loss(contrasts=PAIR).verdicts(made)).verdict == expected


def test_a_claim_about_fewer_columns_asks_these_alone() -> None:
    eight = [name for name in GLUE if name != "mnli_mm"]
    made = scales(scale({"new": glue(62.0, qnli=60.0, mnli_mm=20.0), "old": glue(60.0, -1)}))
    found = only(signs(contrasts=PAIR, at_least=7, of=8, columns=eight).verdicts(made))
    assert found.verdict == "holds"
    assert "in 7 of 8 columns" in found.figures
    assert "mnli_mm" not in found.figures
    assert only(higher(contrasts=PAIR, columns=eight).verdicts(made)).verdict == "holds"
    assert only(higher(contrasts=PAIR, columns=["cola", "mnli_mm"]).verdicts(made)).verdict == "fails"
    drops = scales(scale({"new": glue(62.0), "old": glue(60.0, -1, cola=50.0, mnli_mm=10.0)}))
    assert only(suffers_most(contrasts=[["new", "old"]], column="cola", columns=eight).verdicts(drops)).verdict == "holds"
    assert only(suffers_most(contrasts=[["new", "old"]], column="cola").verdicts(drops)).verdict == "fails"
    (found,) = loses_less_than_others(contrasts=[["new", "old"]], column="stsb", columns=["cola", "stsb"]).verdicts(drops)
    assert found.figures.endswith("in cola")
    (found,) = steady(**STEPS, columns=eight).verdicts(scales(scale({"one": glue(61.0), "five": glue(61.0), "old": glue(60.0)})))
    assert found.figures.count("in the mean of cola, mnli_m, mrpc") == 2


@pytest.mark.parametrize(("cola", "expected"), [(30.0, "holds"), (59.0, "fails"), (57.0, "undecided")])
def test_suffers_most(cola: float, expected: str) -> None:
    made = scale({"with": glue(60.0), "without": glue(57.0, -1, cola=cola)})
    assert only(suffers_most(contrasts=[["with", "without"]], column="cola").verdicts(scales(made))).verdict == expected


@pytest.mark.parametrize(("stsb", "expected"), [(59.5, "holds"), (40.0, "fails"), (57.0, "undecided")])
def test_loses_less_than_others(stsb: float, expected: str) -> None:
    made = scale({"with": glue(60.0), "without": glue(57.0, -1, stsb=stsb)})
    # Losses that vary from seed to seed.
    changed(made, lambda each: replace(each, value=each.value + (seeds(each)[0] - 2) * 0.3), rows=["without"])
    changed(made, lambda each: replace(each, value=each.value - (seeds(each)[0] - 2) * 0.5), "stsb", rows=["without"])
    assert only(loses_less_than_others(contrasts=[["with", "without"]], column="stsb").verdicts(scales(made))).verdict == expected
