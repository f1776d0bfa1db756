"""Every test of a claim comes out each way: comparisons, signs, columns, trends, with gains and finding, on which they rest."""

from dataclasses import replace
from typing import Any

import pytest

from claims.made_up import JITTER, ONE_PRETRAINING, around, at_chance, glue, of_one_pretraining, scale, scales
from relpos.claims.columns import gain_without_loss, loses_less_than_others, signs, suffers_most
from relpos.claims.comparisons import about, higher, higher_on_average, not_higher, not_lower
from relpos.claims.scales import Scale, Scores
from relpos.claims.trends import falls, shrinks, steady
from relpos.claims.verdict import FAILS, HOLDS, NOT_HERE, NOT_RUN, UNDECIDED, Evidence, Verdict, adjusted, all_of, headline
from relpos.tables.columns import GLUE


def only(found: list[Verdict]) -> Verdict:
    assert len(found) == 1
    return found[0]


def verdict(test: Any, **means: float) -> str:
    """Of one scale with these rows; the first keeps the order of the seeds, the others turn it round."""
    rows = {row: glue(mean, 1 if place == 0 else -1) for place, (row, mean) in enumerate(means.items())}
    return only(test.verdicts(scales(scale(rows)))).verdict


PAIR = [["new", "old"]]


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
    for row in ("new", "old"):
        made.scores[row]["rte"].metric, made.scores[row]["rte"].majority, made.scores[row]["rte"].examples = "accuracy", 52.7, 277
    found = only(higher(contrasts=PAIR).verdicts(scales(made)))
    assert found.figures.startswith("new − old +10.0 [")
    assert found.figures.endswith("in cola")
    assert only(higher(contrasts=PAIR, column="rte").verdicts(scales(made))).verdict == "not run"


def test_several_pre_trainings_are_the_units() -> None:
    made = scale({"new": {}, "old": {}})
    for row, shift in (("new", 1.0), ("old", 0.0)):
        values = {(p, s): 50 + shift * (1 + 0.2 * p) + s for p in range(3) for s in range(4)}
        made.scores[row]["cola"] = Scores(values)
    found = only(higher(contrasts=PAIR).verdicts(scales(made)))
    assert found.verdict == "holds"
    assert "over 3 pre-training seeds" in found.figures


def with_seeds(seeds: dict[str, list[tuple[int, int]]], **means: float) -> Scale:
    """One column, of these (pre-training, fine-tuning) seeds: the scores rise with both."""
    made = scale({row: {} for row in seeds})
    for row, some in seeds.items():
        made.scores[row]["cola"] = Scores({(p, s): means[row] + p + s / 10 + s * p / 50 for p, s in some})
    return made


def test_a_row_of_one_pre_training_borrows_the_spread_of_the_others() -> None:
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


STEPS: dict[str, Any] = {"contrasts": [["one", "old"], ["five", "old"]], "at_s": [1, 5]}
GOOD: list[tuple[Any, list[dict[str, Any]]]] = [
    (higher(contrasts=PAIR), [{"new": glue(64.0), "old": glue(60.0, -1)}]),
    (not_higher(contrasts=[["old", "new"]]), [{"new": glue(64.0), "old": glue(60.0, -1)}]),
    (not_lower(contrasts=PAIR), [{"new": glue(64.0), "old": glue(60.0, -1)}]),
    (about(contrasts=PAIR, value=4.0, bound=1.0), [{"new": glue(64.0), "old": glue(60.0, -1)}]),
    (signs(contrasts=PAIR, at_least=5, of=9), [{"new": glue(64.0), "old": glue(60.0, -1)}]),
    (suffers_most(contrasts=[["new", "old"]], column="cola"), [{"new": glue(64.0), "old": glue(60.0, -1, cola=40.0)}]),
    (loses_less_than_others(contrasts=[["new", "old"]], column="stsb"), [{"new": glue(64.0), "old": glue(60.0, -1, stsb=64.0)}]),
    (shrinks(contrasts=PAIR), [{"new": glue(64.0), "old": glue(60.0, -1)}, {"new": glue(80.0), "old": glue(80.0, -1)}]),
    (higher(contrasts=PAIR, at="largest"), [{"new": glue(64.0), "old": glue(60.0, -1)}] * 2),
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


def test_a_fall_over_fine_tunings_decides_nothing() -> None:
    rows = [{"new": glue(65.0 - power), "old": glue(60.0, -1)} for power in range(4)]
    made = scales(*(of_one_pretraining(scale(row, pairs=1000 * 2**power)) for power, row in enumerate(rows)))
    assert only(falls(contrasts=PAIR).verdicts(made)).verdict == "undecided"


def test_a_claim_holds_by_its_weakest_part_and_fails_by_its_strongest() -> None:
    weak, strong, against = Evidence(0.04, 1.0), Evidence(0.001, 1.0), Evidence(1.0, 0.01)
    assert (all_of([weak, strong]).verdict, all_of([weak, strong]).p) == (HOLDS, 0.04)
    assert all_of([against, strong]).verdict == FAILS
    assert all_of([Evidence(1.0, 0.03), strong]).verdict == UNDECIDED  # 0.06 by Holm's correction


def test_among_many_tests_a_small_p_value_is_not_enough() -> None:
    p_values = [0.04, 0.001, *[0.5] * 8]
    page = [Verdict(HOLDS if p < 0.05 else UNDECIDED, "a", "here", p) for p in p_values]
    exact = Verdict(HOLDS, "computed")
    assert [finding.verdict for finding in adjusted([*page[:2], exact])] == [HOLDS, HOLDS, HOLDS]
    corrected = adjusted([*page, exact])
    assert [finding.verdict for finding in corrected[:2]] == [UNDECIDED, HOLDS]
    assert corrected[0].figures == "a; by itself it holds with p 0.04; p 0.2 among the 10 of the paper here leaves it undecided"
    assert corrected[-1] == exact


def test_records_of_another_scale_change_no_verdict() -> None:
    page = [Verdict(HOLDS if p < 0.05 else UNDECIDED, "a", "here", p) for p in (0.04, 0.001, 0.6)]
    merged = [*page, *(Verdict(UNDECIDED, "b", "there", p) for p in (0.5,) * 50), *(Verdict(HOLDS, "c", "there", 1e-9),) * 50]
    assert adjusted(merged)[:3] == adjusted(page)


def test_the_largest_scale_that_decides_is_the_headline() -> None:
    of = {verdict: Verdict(verdict, "") for verdict in (HOLDS, FAILS, UNDECIDED, NOT_HERE, NOT_RUN)}
    assert headline([of[HOLDS], of[FAILS], of[UNDECIDED], of[NOT_RUN]]) == of[FAILS]
    assert headline([of[UNDECIDED], of[NOT_HERE], of[NOT_RUN]]) == of[UNDECIDED]
    assert headline([of[NOT_HERE], of[NOT_RUN]]) == of[NOT_HERE]
    assert headline([of[UNDECIDED], replace(of[HOLDS], is_aside=True)]) == of[UNDECIDED]  # of another protocol than the paper's
    assert headline([of[NOT_RUN]]) == headline([]) == of[NOT_RUN]


def _nats(**rows: tuple[float, float]) -> Scale:
    """Row → held-out loss and shuffle gap."""
    near = [by / 100 for by in JITTER]
    values = {
        row: {"loss": [by - loss for by in near[:: -1 if place else 1]], "order": [gap + by for by in near]}
        for place, (row, (loss, gap)) in enumerate(rows.items())
    }
    return scale(values)


def test_of_two_rows_on_the_plateau_nothing_can_be_said() -> None:
    made = _nats(none=(6.14, 0.0), absolute=(6.15, 0.06), value=(6.10, 0.04), fixed=(5.2, 1.4))
    above = only(higher(contrasts=[["fixed", "absolute"]], column="loss").verdicts(scales(made)))
    assert (above.verdict, above.word) == (HOLDS, "holds, absolute on the plateau")
    both = only(higher(contrasts=[["fixed", "absolute"], ["value", "absolute"]], column="loss").verdicts(scales(made)))
    assert (both.verdict, both.p) == (NOT_HERE, None)
    assert both.figures.endswith("both rows of value − absolute are on the bag-of-words plateau")
    against = only(higher(contrasts=[["value", "fixed"], ["value", "absolute"]], column="loss").verdicts(scales(made)))
    assert (against.verdict, against.word) == (FAILS, "fails, value and absolute on the plateau")  # one contrast is enough


def test_the_row_without_positions_is_not_named_and_others_need_both_a_lead_and_a_gap() -> None:
    made = _nats(none=(6.14, 0.0), behind=(6.14, 0.3), small=(5.9, 0.08), ahead=(5.9, 0.3))
    assert [made.is_on_plateau(row) for row in ("none", "behind", "small", "ahead", "missing")] == [True, True, True, False, None]
    assert only(higher(contrasts=[["ahead", "none"]], column="loss").verdicts(scales(made))).word == HOLDS


@pytest.mark.parametrize(("gain", "expected"), [(-1.0, "holds"), (-0.3, "holds"), (2.0, "fails"), (0.35, "undecided")])
def test_not_higher(gain: float, expected: str) -> None:
    assert verdict(not_higher(contrasts=PAIR, bound=0.5), new=60 + gain, old=60.0) == expected
    assert verdict(not_lower(contrasts=PAIR, bound=0.5), new=60 - gain, old=60.0) == expected


@pytest.mark.parametrize(("gain", "expected"), [(-1.0, "holds"), (-0.3, "holds"), (2.0, "fails"), (0.35, "undecided")])
def test_not_higher_at_all(gain: float, expected: str) -> None:
    assert verdict(not_higher(contrasts=PAIR, bound=0.5, any_gain=True), new=60 + gain, old=60.0) == expected


def test_a_small_clear_gain_is_equivalent_but_a_gain() -> None:
    made = scales(scale({"new": glue(60.25), "old": glue(60.0)}))
    assert only(not_higher(contrasts=PAIR, bound=0.5).verdicts(made)).verdict == "holds"
    assert only(not_higher(contrasts=PAIR, bound=0.5, any_gain=True).verdicts(made)).verdict == "fails"


@pytest.mark.parametrize(("gain", "expected"), [(1.0, "holds"), (4.0, "fails"), (-1.0, "fails"), (1.9, "undecided")])
def test_about(gain: float, expected: str) -> None:
    assert verdict(about(contrasts=PAIR, value=1.0, bound=1.0), new=60 + gain, old=60.0) == expected


@pytest.mark.parametrize(("up", "down", "expected"), [(9, 0, "holds"), (6, 3, "holds"), (4, 5, "fails"), (3, 2, "undecided")])
def test_signs(up: int, down: int, expected: str) -> None:
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
    for column in made.scores["without"].values():  # losses that vary from seed to seed
        column.values = {seed: value + (seed[0] - 2) * 0.3 for seed, value in column.values.items()}
    made.scores["without"]["stsb"].values = {s: v - (s[0] - 2) * 0.5 for s, v in made.scores["without"]["stsb"].values.items()}
    assert only(loses_less_than_others(contrasts=[["with", "without"]], column="stsb").verdicts(scales(made))).verdict == expected


@pytest.mark.parametrize(("large", "expected"), [(0.2, "holds"), (9.0, "fails"), (4.1, "undecided")])
def test_shrinks(large: float, expected: str) -> None:
    small = scale({"new": glue(64.0), "old": glue(60.0, -1)})
    big = scale({"new": glue(80 + large), "old": glue(80.0, -1)}, size=4)
    test = shrinks(contrasts=PAIR)
    assert only(test.verdicts(scales(small, big))).verdict == expected
    assert test.verdicts(scales(small)) == []
    assert test.verdicts(scales(small, scale(big.scores and {"new": glue(1.0), "old": glue(1.0)}, store="other-1", size=4))) == []


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


def test_amounts_of_text_are_compared_in_the_same_columns() -> None:
    rows = [{"new": three(60.0, cola=64.0), "old": three(60.0, -1)}, {"new": three(64.0), "old": three(60.0, -1)}]
    less, more = (scale(one, pairs=1000 * (place + 1)) for place, one in enumerate(rows))
    found = scales(at_chance(less, "rte", "sst2"), more)
    assert only(falls(contrasts=PAIR).verdicts(found)).verdict == "fails"  # 4 in cola alone against 4 in three


def test_every_s_is_compared_in_the_same_columns() -> None:
    made = scale({"one": three(60.0, cola=64.0), "five": three(64.0), "old": three(60.0, -1)})
    found = only(steady(**STEPS, bound=1.0, columns=THREE).verdicts(scales(at_chance(made, "rte", "sst2", rows=("one", "old")))))
    assert found.verdict == "fails"
    assert found.figures.count("in the mean of cola, rte, sst2") == 2


@pytest.mark.parametrize(
    ("key", "value", "alike"),
    [
        *[("pairs", 1000, False), ("length", 64, False), ("packing", "document", False), ("precision", "bf16", False)],
        *[("first", {"share": 0.9}, False), ("steps", 500, True), ("batch", 64, True)],
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


def test_higher_at_the_largest_size_looks_there_alone() -> None:
    small = scale({"new": glue(64.0), "old": glue(60.0, -1)})
    big = scale({"new": glue(70.0), "old": glue(80.0, -1)}, size=4)
    assert only(higher(contrasts=PAIR, at="largest").verdicts(scales(small, big))).verdict == "fails"
    assert higher(contrasts=PAIR, at="largest").verdicts(scales(small)) == []


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
    test = higher_on_average(contrasts=[["base", "one"], ["base", "two"], ["base", "three"]])
    found = only(test.verdicts(scales(scale(rows))))
    assert found.verdict == expected
    assert f"mean of these {(3 + last) / 3:+.1f} [" in found.figures
    del rows["three"]
    assert only(test.verdicts(scales(scale(rows)))).verdict == "not run"


def test_most_loss_is_counted_in_points_and_standard_deviations_stand_beside() -> None:
    rows = {
        "with": {"cola": [40.0, 50.0, 60.0], "rte": [60.0, 60.1, 60.2]},
        "without": {"cola": [0.0, 6.0, 9.0], "rte": [50.0, 50.2, 50.1]},
    }
    found = only(suffers_most(contrasts=[["with", "without"]], column="cola").verdicts(scales(scale(rows))))
    assert found.verdict == "holds"
    share = float(found.figures.partition("draws (")[2].partition("%")[0])
    assert share < 5  # its scores vary far more


def test_not_lower_at_the_largest_size() -> None:
    small = scale({"new": glue(50.0), "old": glue(60.0, -1)})
    big = scale({"new": glue(80.0), "old": glue(80.1, -1)}, size=4)
    assert only(not_lower(contrasts=PAIR, at="largest", bound=0.8).verdicts(scales(small, big))).verdict == "holds"
    assert not_lower(contrasts=PAIR, at="largest").verdicts(scales(small)) == []


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
