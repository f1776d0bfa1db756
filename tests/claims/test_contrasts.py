"""Contrasts of rows come out each way, with the gains on which they rest."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from claims.made_up import (
    ONE_PRETRAINING,
    around,
    at_chance,
    changed,
    glue,
    judged,
    of_one_pretraining,
    scale,
    scales,
    scored,
)
from relpos.claims.contrasts import Contrasts
from relpos.claims.verdict import FAILS, HOLDS, NOT_HERE
from relpos.results.gain import Contrast
from relpos.results.plateau import is_on_plateau
from relpos.results.scale import Scale


def contrasts(*pairs: Sequence[str], **bounds: Any) -> Contrasts:
    """The claim on these pairs, above zero where no bound is given."""
    bounds = bounds if {"above", "below"} & bounds.keys() else bounds | {"above": 0}
    return Contrasts([Contrast(*pair) for pair in pairs], **bounds)


NEW = contrasts(("new", "old"))
near = partial(around, spread=0.01)


def outcome(test: Contrasts, **means: float) -> str:
    """The verdict on a scale with these rows; the first keeps the order of the seeds, others turn
    it."""
    rows, order = {}, 1
    for row, mean in means.items():
        rows[row] = glue(mean, order)
        order = -1
    return judged(test, scale(rows)).verdict


ABOVE = ({"above": 0}, [(2.0, HOLDS), (-2.0, FAILS), (0.1, "undecided"), (-0.1, "undecided")])
NO_LOSS = ({"above": -0.5}, [(1.0, HOLDS), (0.3, HOLDS), (-2.0, FAILS), (-0.35, "undecided")])
NO_GAIN = ({"below": 0.5}, [(-1.0, HOLDS), (-0.3, HOLDS), (2.0, FAILS), (0.35, "undecided")])
BETWEEN = (
    {"above": 0, "below": 2},
    [(1.0, HOLDS), (4.0, FAILS), (-1.0, FAILS), (1.9, "undecided")],
)
WAYS = [(keys, *way) for keys, ways in (ABOVE, NO_LOSS, NO_GAIN, BETWEEN) for way in ways]


@pytest.mark.parametrize(("keys", "gain", "expected"), WAYS)
def test_a_difference_beside_its_bounds(keys, gain, expected):
    test = contrasts(("new", "old"), **keys)
    assert outcome(test, new=60 + gain, old=60.0) == expected


def test_all_pairs_must_be_above_and_one_below_is_enough_to_fail():
    test = contrasts(("new", "old"), ("newer", "old"))
    assert outcome(test, new=63.0, newer=64.0, old=60.0) == "holds"
    assert outcome(test, new=63.0, newer=57.0, old=60.0) == "fails"
    assert outcome(test, new=63.0, newer=60.0, old=60.0) == "undecided"


@pytest.mark.parametrize(("last", "expected"), [(0.3, HOLDS), (0.0, HOLDS), (-9.0, FAILS)])
def test_over_rows_the_mean_of_the_differences_decides(last, expected):
    rows = {"base": glue(60.0), "one": glue(58.0, -1), "two": glue(59.0, -1)}
    rows["three"] = glue(60.0 - last, -1)
    pairs = [("base", "one"), ("base", "two"), ("base", "three")]
    test = contrasts(*pairs, over="rows", above=0, beside=[Contrast("two", "one")])
    verdict = judged(test, scale(rows))
    assert verdict.verdict == expected
    assert f"mean of these {(3 + last) / 3:+.1f} [" in verdict.figures
    assert "two − one +1.0" in verdict.figures
    del rows["three"]
    assert judged(test, scale(rows)).verdict == "not run"


def test_a_row_that_is_not_there_is_named():
    scores = scale({"new": glue(63.0), "old": glue(60.0, -1)})
    verdict = judged(contrasts(("new", "old"), ("newer", "old")), scores)
    assert verdict.verdict == "not run"
    assert "no scores of newer" in verdict.figures
    assert "new − old +3.0 [" in verdict.figures
    assert NEW.verdicts(scales()) == []


def test_one_run_each_decides_nothing():
    verdict = judged(NEW, scale({"new": {"cola": [40.0]}, "old": {"cola": [1.0]}}))
    assert verdict.verdict == "undecided"
    assert verdict.figures == "new − old +39.0 (one run each) in cola"


def test_a_column_at_the_constant_answer_says_nothing():
    new = {"rte": around(53.0), "cola": around(30.0)}
    scores = scale({"new": new, "old": {"rte": around(50.0), "cola": around(20.0, -1)}})
    changed(
        scores, lambda value: replace(value, metric="accuracy", majority=52.7, examples=277), "rte"
    )
    verdict = judged(NEW, scores)
    assert verdict.figures.startswith("new − old +10.0 [")
    assert verdict.figures.endswith("in cola")
    assert judged(replace(NEW, column="rte"), scores).verdict == "not run"


@pytest.mark.parametrize("expected", ["holds", "not run"])
def test_a_bound_in_nine_columns_is_not_applied_to_fewer(expected):
    scores = scale({"new": glue(60.25), "old": glue(60.0)})
    if expected == "not run":
        at_chance(scores, "rte")
    assert judged(contrasts(("new", "old"), below=0.5), scores).verdict == expected


def test_a_claim_about_fewer_columns_needs_these_alone():
    eight = [name for name in glue(0.0) if name != "mnli_mm"]
    scores = scale({"new": glue(62.0, mnli_mm=20.0), "old": glue(60.0, -1)})
    verdict = judged(replace(NEW, columns=eight), scores)
    assert verdict.verdict == "holds"
    assert "mnli_mm" not in verdict.figures
    assert judged(replace(NEW, columns=["cola", "mnli_mm"]), scores).verdict == "fails"


def test_units_are_pre_trainings_and_not_fine_tunings():
    scores = scale({"new": {}, "old": {}})
    for row, shift in (("new", 1.0), ("old", 0.0)):
        values = {(p, s): 50 + shift * (1 + 0.2 * p) + s for p in range(3) for s in range(4)}
        scores.values[row]["cola"] = scored(values, "cola")
    verdict = judged(NEW, scores)
    assert verdict.verdict == "holds"
    assert "over 3 pre-training seeds" in verdict.figures


def with_seeds(seeds: dict[str, list[tuple[int, int]]], **means: float) -> Scale:
    """One column, of these (pre-training, fine-tuning) seeds: the scores rise with both."""
    scores = scale({row: {} for row in seeds})
    for row, pairs in seeds.items():
        values = {(p, s): means[row] + p + s / 10 + s * p / 50 for p, s in pairs}
        scores.values[row]["cola"] = scored(values, "cola")
    return scores


def test_a_claim_about_one_pre_training_borrows_the_spread_of_the_others():
    several = [(p, s) for p in range(3) for s in range(4)]
    scores = with_seeds({"new": several, "old": [(0, s) for s in range(4)]}, new=52.0, old=50.0)
    assert judged(NEW, scores).verdict == "undecided"
    scores = with_seeds({"new": several, "old": [(7, s) for s in range(4)]}, new=80.0, old=50.0)
    verdict = judged(NEW, scores)
    assert verdict.verdict == "holds"
    # The spread is that of the row that has several.
    assert "over 3 pre-training seeds, 2 degrees of freedom" in verdict.figures


def test_one_shared_pre_training_does_not_make_pairs():
    seeds = {"new": [(p, 0) for p in (0, 1, 2)], "old": [(p, 0) for p in (2, 3, 4)]}
    verdict = judged(NEW, with_seeds(seeds, new=60.0, old=50.0))
    assert verdict.verdict == "holds"
    assert verdict.figures.startswith("new − old +8.0 [")
    assert "over 3 pre-training seeds" in verdict.figures


@pytest.mark.parametrize("keys", [{"above": 0}, {"above": -0.5}, {"above": 3, "below": 5}])
def test_fine_tunings_of_one_pre_training_decide_nothing(keys):
    test = contrasts(("new", "old"), **keys)
    scores = scale({"new": glue(64.0), "old": glue(60.0, -1)})
    assert judged(test, scores).verdict == "holds"
    verdict = judged(test, of_one_pretraining(scores))
    assert verdict.verdict == "undecided"
    assert verdict.p is None
    assert ONE_PRETRAINING in verdict.figures
    assert verdict.takes.startswith("two pre-training seeds or more")


@pytest.mark.parametrize("keys", [{"above": 0}, {"below": 0.2}, {"above": 0, "over": "rows"}])
def test_every_undecided_contrast_says_what_it_would_take(keys):
    scores = scale({"new": glue(60.05), "old": glue(60.0, -1)})
    verdict = judged(contrasts(("new", "old"), **keys), scores)
    assert verdict.verdict == "undecided", verdict
    assert "seed" in verdict.takes or "too small" in verdict.takes


def nats(**rows: tuple[float, float]) -> Scale:
    """Row → held-out loss and shuffle gap."""
    values, order = {}, 1
    for row, (loss, gap) in rows.items():
        values[row] = {"loss": near(-loss, order), "order": near(gap)}
        order = -1
    return scale(values)


def in_loss(scale: Scale, *pairs: Sequence[str]) -> Any:
    return judged(contrasts(*pairs, column="loss"), scale)


def test_of_two_rows_on_the_plateau_nothing_can_be_said():
    scores = nats(none=(6.14, 0.0), absolute=(6.15, 0.06), value=(6.10, 0.04), fixed=(5.2, 1.4))
    above = in_loss(scores, ("fixed", "absolute"))
    assert (above.verdict, above.word) == (HOLDS, "holds, absolute on the plateau")
    both = in_loss(scores, ("fixed", "absolute"), ("value", "absolute"))
    assert (both.verdict, both.p) == (NOT_HERE, None)
    assert both.figures.endswith("both rows of value − absolute are on the bag-of-words plateau")
    two = in_loss(scores, ("absolute", "none"), ("value", "absolute"))
    pairs = "absolute − none, value − absolute"
    assert two.figures.endswith(f"both rows of {pairs} are on the bag-of-words plateau")
    against = in_loss(scores, ("value", "fixed"), ("value", "absolute"))  # one contrast is enough
    assert (against.verdict, against.word) == (FAILS, "fails, value and absolute on the plateau")


def test_the_row_without_positions_is_not_named_and_others_need_both_a_lead_and_a_gap():
    scores = nats(none=(6.14, 0.0), behind=(6.14, 0.3), small=(5.9, 0.08), ahead=(5.9, 0.3))
    rows = ("none", "behind", "small", "ahead", "missing")
    assert [scores.is_on_plateau(row) for row in rows] == [True, True, True, False, None]
    assert in_loss(scores, ("ahead", "none")).word == HOLDS


def test_a_row_that_knows_less_than_a_tenth_of_the_order_is_on_the_plateau():
    scores = nats(none=(6.14, 0.0), absolute=(6.06, 0.3), value=(5.9, 0.3), fixed=(5.2, 1.4))
    assert [scores.is_on_plateau(row) for row in ("absolute", "value", "fixed")] == [
        True,
        False,
        False,
    ]
    # Without the best row the same lead is a good part of what is known.
    fewer = nats(none=(6.14, 0.0), absolute=(6.06, 0.3), value=(5.9, 0.3))
    assert fewer.is_on_plateau("absolute") is False


def test_a_gap_must_be_above_the_bound_beyond_noise():
    losses = {"none": {0: 6.0, 1: 6.01}, "a": {0: 5.0, 1: 5.01}, "b": {0: 5.1, 1: 5.11}}
    sure = {"a": {0: 0.3, 1: 0.31}, "b": {0: 1.0, 1: 1.01}}
    unsure = {"a": {0: 0.05, 1: 0.25}, "b": {0: 1.0, 1: 1.2}}
    assert [is_on_plateau(losses, gaps, "a") for gaps in (sure, unsure)] == [False, True]
