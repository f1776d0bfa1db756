"""Comparisons of rows come out each way, with the gains on which they rest."""

from dataclasses import replace
from typing import Any

import pytest

from claims.made_up import (
    JITTER,
    ONE_PRETRAINING,
    PAIR,
    STEPS,
    around,
    changed,
    glue,
    of_one_pretraining,
    only,
    scale,
    scales,
    scored,
)
from relpos.claims.columns import gain_without_loss, loses_less_than_others, signs, suffers_most
from relpos.claims.comparisons import about, higher, higher_on_average, not_higher, not_lower
from relpos.claims.trends import shrinks, steady
from relpos.claims.verdict import FAILS, HOLDS, NOT_HERE
from relpos.results.plateau import is_on_plateau
from relpos.results.scale import Scale


def verdict(test: Any, **means: float) -> str:
    """Of one scale with these rows; the first keeps the order of the seeds, the others turn it round."""
    rows = {row: glue(mean, 1 if place == 0 else -1) for place, (row, mean) in enumerate(means.items())}
    return only(test.verdicts(scales(scale(rows)))).verdict


@pytest.mark.parametrize(("gain", "expected"), [(2.0, "holds"), (-2.0, "fails"), (0.1, "undecided"), (-0.1, "undecided")])
def test_higher(gain: float, expected: str) -> None:
    assert verdict(higher(contrasts=PAIR), new=60 + gain, old=60.0) == expected


def test_higher_asks_all_pairs_and_fails_with_one() -> None:
    test = higher(contrasts=[["new", "old"], ["newer", "old"]])
    assert verdict(test, new=63.0, newer=64.0, old=60.0) == "holds"
    assert verdict(test, new=63.0, newer=57.0, old=60.0) == "fails"
    assert verdict(test, new=63.0, newer=60.0, old=60.0) == "undecided"


def test_a_row_that_is_not_there_is_named() -> None:
    found = only(
        higher(contrasts=[["new", "old"], ["newer", "old"]]).verdicts(scales(scale({"new": glue(63.0), "old": glue(60.0, -1)})))
    )
    assert found.verdict == "not run"
    assert "no scores of newer" in found.figures
    assert "new − old +3.0 [" in found.figures
    assert higher(contrasts=PAIR).verdicts(scales()) == []


def test_one_run_each_decides_nothing() -> None:
    found = only(higher(contrasts=PAIR).verdicts(scales(scale({"new": {"cola": [40.0]}, "old": {"cola": [1.0]}}))))
    assert (found.verdict, found.figures) == ("undecided", "new − old +39.0 (one run each) in cola")


def test_a_column_at_the_constant_answer_says_nothing() -> None:
    made = scale({"new": {"rte": around(53.0), "cola": around(30.0)}, "old": {"rte": around(50.0), "cola": around(20.0, -1)}})
    changed(made, lambda each: replace(each, metric="accuracy", majority=52.7, examples=277), "rte")
    found = only(higher(contrasts=PAIR).verdicts(scales(made)))
    assert found.figures.startswith("new − old +10.0 [")
    assert found.figures.endswith("in cola")
    assert only(higher(contrasts=PAIR, column="rte").verdicts(scales(made))).verdict == "not run"


def test_several_pre_trainings_are_the_units() -> None:
    made = scale({"new": {}, "old": {}})
    for row, shift in (("new", 1.0), ("old", 0.0)):
        values = {(p, s): 50 + shift * (1 + 0.2 * p) + s for p in range(3) for s in range(4)}
        made.values[row]["cola"] = scored(values, "cola")
    found = only(higher(contrasts=PAIR).verdicts(scales(made)))
    assert found.verdict == "holds"
    assert "over 3 pre-training seeds" in found.figures


def with_seeds(seeds: dict[str, list[tuple[int, int]]], **means: float) -> Scale:
    """One column, of these (pre-training, fine-tuning) seeds: the scores rise with both."""
    made = scale({row: {} for row in seeds})
    for row, some in seeds.items():
        made.values[row]["cola"] = scored({(p, s): means[row] + p + s / 10 + s * p / 50 for p, s in some}, "cola")
    return made


def test_a_claim_about_one_pre_training_borrows_the_spread_of_the_others() -> None:
    several = [(p, s) for p in range(3) for s in range(4)]
    made = with_seeds({"new": several, "old": [(0, s) for s in range(4)]}, new=52.0, old=50.0)
    found = only(higher(contrasts=PAIR).verdicts(scales(made)))
    assert found.verdict == "undecided"
    made = with_seeds({"new": several, "old": [(7, s) for s in range(4)]}, new=80.0, old=50.0)
    found = only(higher(contrasts=PAIR).verdicts(scales(made)))
    assert found.verdict == "holds"
    assert "over 3 pre-training seeds, 2 degrees of freedom" in found.figures  # the spread is that of the row that has several


def test_one_shared_pre_training_does_not_make_pairs() -> None:
    made = with_seeds({"new": [(p, 0) for p in (0, 1, 2)], "old": [(p, 0) for p in (2, 3, 4)]}, new=60.0, old=50.0)
    found = only(higher(contrasts=PAIR).verdicts(scales(made)))
    assert found.verdict == "holds"
    assert found.figures.startswith("new − old +8.0 [")
    assert "over 3 pre-training seeds" in found.figures


AHEAD = {"new": glue(64.0), "old": glue(60.0, -1)}
GOOD: list[tuple[Any, list[dict[str, Any]]]] = [
    (higher(contrasts=PAIR), [AHEAD]),
    (not_higher(contrasts=[["old", "new"]]), [AHEAD]),
    (not_lower(contrasts=PAIR), [AHEAD]),
    (about(contrasts=PAIR, value=4.0, bound=1.0), [AHEAD]),
    (signs(contrasts=PAIR, at_least=5, of=9), [AHEAD]),
    (suffers_most(contrasts=[["new", "old"]], column="cola"), [{"new": glue(64.0), "old": glue(60.0, -1, cola=40.0)}]),
    (loses_less_than_others(contrasts=[["new", "old"]], column="stsb"), [{"new": glue(64.0), "old": glue(60.0, -1, stsb=64.0)}]),
    (shrinks(contrasts=PAIR), [AHEAD, {"new": glue(80.0), "old": glue(80.0, -1)}]),
    (higher(contrasts=PAIR, at="largest"), [AHEAD] * 2),
    (steady(**STEPS, bound=2.0), [{"one": glue(64.0), "five": glue(64.0), "old": glue(60.0, -1)}]),
]


@pytest.mark.parametrize(("test", "sizes"), GOOD)
def test_fine_tunings_of_one_pre_training_decide_nothing(test: Any, sizes: list[dict[str, Any]]) -> None:
    made = [scale(rows, size=2 * place + 1) for place, rows in enumerate(sizes)]
    assert only(test.verdicts(scales(*made))).verdict == "holds"
    found = only(test.verdicts(scales(*map(of_one_pretraining, made))))
    assert (found.verdict, found.p) == ("undecided", None)
    assert ONE_PRETRAINING in found.figures
    assert found.takes.startswith("two pre-training seeds or more")


def nats(**rows: tuple[float, float]) -> Scale:
    """Row → held-out loss and shuffle gap."""
    near = [by / 100 for by in JITTER]
    values = {
        row: {"loss": [by - loss for by in near[:: -1 if place else 1]], "order": [gap + by for by in near]}
        for place, (row, (loss, gap)) in enumerate(rows.items())
    }
    return scale(values)


def test_of_two_rows_on_the_plateau_nothing_can_be_said() -> None:
    made = nats(none=(6.14, 0.0), absolute=(6.15, 0.06), value=(6.10, 0.04), fixed=(5.2, 1.4))
    above = only(higher(contrasts=[["fixed", "absolute"]], column="loss").verdicts(scales(made)))
    assert (above.verdict, above.word) == (HOLDS, "holds, absolute on the plateau")
    both = only(higher(contrasts=[["fixed", "absolute"], ["value", "absolute"]], column="loss").verdicts(scales(made)))
    assert (both.verdict, both.p) == (NOT_HERE, None)
    assert both.figures.endswith("both rows of value − absolute are on the bag-of-words plateau")
    two = only(higher(contrasts=[["absolute", "none"], ["value", "absolute"]], column="loss").verdicts(scales(made)))
    assert two.figures.endswith("both rows of absolute − none, value − absolute are on the bag-of-words plateau")
    against = only(higher(contrasts=[["value", "fixed"], ["value", "absolute"]], column="loss").verdicts(scales(made)))
    assert (against.verdict, against.word) == (FAILS, "fails, value and absolute on the plateau")  # one contrast is enough


def test_the_row_without_positions_is_not_named_and_others_need_both_a_lead_and_a_gap() -> None:
    made = nats(none=(6.14, 0.0), behind=(6.14, 0.3), small=(5.9, 0.08), ahead=(5.9, 0.3))
    assert [made.is_on_plateau(row) for row in ("none", "behind", "small", "ahead", "missing")] == [True, True, True, False, None]
    assert only(higher(contrasts=[["ahead", "none"]], column="loss").verdicts(scales(made))).word == HOLDS


def test_a_row_that_knows_less_than_a_tenth_of_the_order_is_on_the_plateau() -> None:
    made = nats(none=(6.14, 0.0), absolute=(6.06, 0.3), value=(5.9, 0.3), fixed=(5.2, 1.4))
    assert [made.is_on_plateau(row) for row in ("absolute", "value", "fixed")] == [True, False, False]
    # Without the best row the same lead is a good part of what is known.
    assert nats(none=(6.14, 0.0), absolute=(6.06, 0.3), value=(5.9, 0.3)).is_on_plateau("absolute") is False


def test_a_gap_must_be_above_the_bound_beyond_noise() -> None:
    losses = {"none": {0: 6.0, 1: 6.01}, "a": {0: 5.0, 1: 5.01}, "b": {0: 5.1, 1: 5.11}}
    sure, unsure = {"a": {0: 0.3, 1: 0.31}, "b": {0: 1.0, 1: 1.01}}, {"a": {0: 0.05, 1: 0.25}, "b": {0: 1.0, 1: 1.2}}
    assert [is_on_plateau(losses, gaps, "a") for gaps in (sure, unsure)] == [False, True]


def test_a_clear_gain_around_the_bound_decides_nothing() -> None:
    made = scales(scale({"new": glue(60.5), "old": glue(60.0)}))
    assert only(not_higher(contrasts=PAIR, bound=0.5).verdicts(made)).verdict == "undecided"


@pytest.mark.parametrize(("gain", "expected"), [(-1.0, "holds"), (-0.3, "holds"), (2.0, "fails"), (0.35, "undecided")])
def test_not_higher(gain: float, expected: str) -> None:
    for any_gain in (False, True):
        assert verdict(not_higher(contrasts=PAIR, bound=0.5, any_gain=any_gain), new=60 + gain, old=60.0) == expected
    assert verdict(not_lower(contrasts=PAIR, bound=0.5), new=60 - gain, old=60.0) == expected


def test_a_small_clear_gain_is_equivalent_but_a_gain() -> None:
    made = scales(scale({"new": glue(60.25), "old": glue(60.0)}))
    assert only(not_higher(contrasts=PAIR, bound=0.5).verdicts(made)).verdict == "holds"
    assert only(not_higher(contrasts=PAIR, bound=0.5, any_gain=True).verdicts(made)).verdict == "fails"


@pytest.mark.parametrize(("gain", "expected"), [(1.0, "holds"), (4.0, "fails"), (-1.0, "fails"), (1.9, "undecided")])
def test_about(gain: float, expected: str) -> None:
    assert verdict(about(contrasts=PAIR, value=1.0, bound=1.0), new=60 + gain, old=60.0) == expected


@pytest.mark.parametrize(
    ("test", "small", "large", "expected"),
    [
        (higher(contrasts=PAIR, at="largest"), (64.0, 60.0), (70.0, 80.0), "fails"),
        (not_lower(contrasts=PAIR, at="largest", bound=0.8), (50.0, 60.0), (80.0, 80.1), "holds"),
    ],
)
def test_at_the_largest_size_that_size_alone_decides(
    test: Any, small: tuple[float, float], large: tuple[float, float], expected: str
) -> None:
    made = [scale({"new": glue(new), "old": glue(old, -1)}, size=size) for size, (new, old) in ((1, small), (4, large))]
    assert only(test.verdicts(scales(*made))).verdict == expected
    assert test.verdicts(scales(made[0])) == []


UNDECIDED_ROWS = {"new": glue(60.05, rte=60.3), "old": glue(60.0, -1), "one": glue(60.0), "five": glue(60.4, -1)}


@pytest.mark.parametrize(
    "test",
    [
        higher(contrasts=PAIR),
        higher_on_average(contrasts=[["new", "old"], ["five", "old"]]),
        not_higher(contrasts=PAIR, bound=0.2),
        about(contrasts=PAIR, value=1.0, bound=0.9),
        signs(contrasts=PAIR, at_least=5, of=9),
        gain_without_loss(contrasts=PAIR),
        suffers_most(contrasts=[["new", "old"]], column="rte"),
        steady(**STEPS, bound=0.4),
    ],
)
def test_every_undecided_claim_says_what_it_would_take(test: Any) -> None:
    found = only(test.verdicts(scales(scale(UNDECIDED_ROWS))))
    assert found.verdict == "undecided", found
    assert "seed" in found.takes or "too small" in found.takes


@pytest.mark.parametrize(("last", "expected"), [(0.3, "holds"), (0.0, "holds"), (-3.0, "fails")])
def test_higher_on_average(last: float, expected: str) -> None:
    rows = {"base": glue(60.0), "one": glue(58.0, -1), "two": glue(59.0, -1), "three": glue(60.0 - last, -1)}
    pairs = [["base", "one"], ["base", "two"], ["base", "three"]]
    test = higher_on_average(contrasts=pairs, beside=[["two", "one"]])
    found = only(test.verdicts(scales(scale(rows))))
    assert found.verdict == expected
    assert f"mean of these {(3 + last) / 3:+.1f} [" in found.figures
    assert "two − one +1.0" in found.figures
    del rows["three"]
    assert only(test.verdicts(scales(scale(rows)))).verdict == "not run"
