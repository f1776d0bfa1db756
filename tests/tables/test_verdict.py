"""A verdict can come out each way, and says what it was held against."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from relpos.tables.columns import printed_numbers, rows_of
from relpos.tables.comparison import between, with_comparisons
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table
from relpos.tables.render import text
from relpos.tables.render.view import view_of
from relpos.tables.row import Row
from relpos.tables.table import Table
from relpos.tables.verdict import Printed, difference, verdict
from tables.made_rows import around, column, experiment, row


def judged(values: list[float], printed: Printed, error: float = 0.0, server: float | None = None) -> str:
    return verdict(len(values), difference([values], printed, error, server), printed.bound)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (around(40.0), "reproduced"),
        (around(46.0), "above"),
        (around(34.0), "below"),
        (around(40.5, 8.0), "undecided"),
        ([40.0], "undecided"),
        ([], "not run"),
    ],
)
def test_each_verdict_against_a_mean_with_its_error(values: list[float], expected: str) -> None:
    assert judged(values, Printed(40.0, 0.4)) == expected


def test_a_clear_difference_that_is_too_small_to_matter_is_a_reproduction() -> None:
    found = difference([around(40.3, 0.1)], Printed(40.0, 0.04))
    assert found is not None
    assert found.low > 0
    assert judged(around(40.3, 0.1), Printed(40.0, 0.04)) == "reproduced"


def test_the_bound_is_the_papers_own_precision() -> None:
    assert Printed(7.0, 2.4).bound == pytest.approx((1.96 + 0.8416) * sqrt(2) * 2.4, rel=1e-3)
    assert Printed(84.9, 0.0).bound == 0.5
    assert Printed(75.2).bound == 1.0


@pytest.mark.parametrize(("mean", "expected"), [(75.0, "reproduced"), (78.0, "above"), (72.0, "below"), (76.05, "undecided")])
def test_each_verdict_against_a_median_without_spread(mean: float, expected: str) -> None:
    assert judged(around(mean, 2.0 if expected == "undecided" else 0.8), Printed(75.0, runs=5, statistic="median")) == expected


def test_best_of_ten_is_compared_with_the_best_and_not_with_the_mean() -> None:
    found = difference([around(74.0)], Printed(75.0, statistic="best"))
    assert found is not None
    assert found.value == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("statistic", "ours", "theirs"),
    [("best", 10, 10), ("best", 3, 10), ("best", 2, 10), ("median", 5, 5), ("median", 2, 5), ("mean", 4, 10)],
)
def test_without_a_difference_one_is_seldom_found(statistic: str, ours: int, theirs: int) -> None:
    chance = np.random.default_rng(0)
    sums = {"best": np.max, "median": np.median, "mean": np.mean}[statistic]
    found = [
        difference([chance.normal(size=ours)], Printed(float(sums(chance.normal(size=theirs))), runs=theirs, statistic=statistic))
        for _ in range(400)
    ]
    assert np.mean([one is None or one.low > 0 or one.high < 0 for one in found]) < 0.12


def test_two_equal_runs_decide_nothing() -> None:
    assert difference([[52.7, 52.7]], Printed(53.0)) is None


def test_glue_of_the_best_is_the_mean_of_the_bests() -> None:
    values = {"rte": around(60.0), "cola": around(40.0)[::-1]}
    found = difference([*values.values()], Printed(51.0, statistic="best"))
    alone = difference([values["rte"]], Printed(61.0, statistic="best"))
    assert found is not None
    assert alone is not None
    assert found.value == pytest.approx(0.0)
    assert found.high == pytest.approx(alone.high / sqrt(2), rel=0.15)  # two columns, of twice the freedom


def test_a_number_of_the_test_set_needs_room_for_two_sets_of_examples() -> None:
    printed = Printed(75.0, statistic="best", test=True)
    alone, sampled = (difference([around(76.0, 0.1)], printed, error) for error in (0.0, 1.5))
    assert alone is not None
    assert sampled is not None
    assert sampled.high - sampled.value == pytest.approx(1.96 * 1.5 * sqrt(2), rel=0.01)  # seeds differ by a tenth only
    assert alone.high - alone.value < 0.3
    assert judged(around(76.3, 0.1), printed) == "above"
    assert judged(around(76.3, 0.1), printed, 1.5) == "undecided"
    assert judged(around(80.0, 0.1), printed, 1.5, server=75.1) == "reproduced"  # the server's answer is of the same set


def test_what_stands_beside_a_cell() -> None:
    rows = [row("base", around(60.0), []), row("better", around(64.0), []), row("empty", [], [])]
    printed = {"base": {"rte": 60.1, "rte_sem": 0.3}, "better": {"rte": 70.0, "rte_sem": 0.3}, "empty": {"rte": 1.0}}
    base, better, empty = with_comparisons(rows, experiment(baseline=["base"]), printed)
    of_base, of_better, of_empty = (compared.columns["rte"] for compared in (base, better, empty))
    assert [column.verdict for column in (of_base, of_better, of_empty)] == ["reproduced", "below", "not run"]
    assert of_better.difference == pytest.approx(-6.0)
    assert of_better.difference_interval is not None
    assert of_better.difference_interval[1] < 0
    assert (of_better.delta, of_better.delta_percent, of_better.delta_n) == (pytest.approx(4.0), pytest.approx(10.0), 10)
    assert of_better.delta_printed == pytest.approx(9.9)
    assert of_better.delta_p_holm == 0.0  # the seeds are paired: every one gains 4
    assert of_base.delta is None
    assert of_empty.delta is None
    assert of_better.detectable.examples == pytest.approx(3.96 * 100 * sqrt(0.64 * 0.36 / 400), rel=0.02)
    assert of_better.detectable.seeds is not None
    assert of_better.detectable.seeds > 0


def test_each_row_is_held_against_the_baseline_it_shares_most_words_with() -> None:
    rows = [row(name, around(value), words) for name, value, words in (
        ("small_a", 60.0, ["size=small"]), ("base_a", 70.0, ["size=base"]),
        ("base_b", 73.0, ["size=base", "position=b"]), ("small_b", 61.0, ["size=small", "position=b"]))]  # fmt: skip
    found = {
        compared.name: compared.columns["rte"].delta
        for compared in with_comparisons(rows, experiment(baseline=["small_a", "base_a"]), {})
    }
    assert found == {"small_a": None, "base_a": None, "base_b": pytest.approx(3.0), "small_b": pytest.approx(1.0)}


def test_a_baseline_that_was_not_chosen_is_not_replaced_by_another() -> None:
    words = {"small_a": ["size=small"], "base_a": ["size=base"], "small_b": ["size=small", "position=b"]}
    rows = [row(name, around(60.0), words[name]) for name in ("base_a", "small_b")]
    found = with_comparisons(rows, experiment(baseline=["small_a", "base_a"], rows=words), {})
    assert [compared.columns["rte"].delta for compared in found] == [None, None]


def test_one_shared_seed_is_no_pair() -> None:
    first, second = column(around(60.0)[:4]), replace(column(around(70.0)[:4]), seeds=[3, 4, 5, 6])
    found = between(first, second)
    assert found is not None
    assert found.high < 0


def test_fine_tunings_of_one_pre_training_count_once_where_there_are_several() -> None:
    rows = []
    for name, shift in (("base", 0.0), ("other", 0.5)):
        values = [value + shift * (place % 2) for place, value in enumerate(around(60.0 + 4 * shift))]
        scores = replace(column(values), seeds=[f"{place % 2}/{place}" for place in range(10)])
        rows.append(Row(name, columns={"rte": scores}))
    compared = with_comparisons(rows, experiment(baseline=["base"]), {})[1].columns["rte"]
    assert compared.delta_n == 2
    assert compared.delta == pytest.approx(2.25)


def test_a_partial_mean_is_not_held_against_printed_glue() -> None:
    found = with_comparisons([row("base", around(60.0), [])], experiment(), {"base": {"glue": 70.0}})[0]
    assert found.mean.verdict is None


def test_a_table_that_needs_something_shows_the_printed_numbers_and_not_run() -> None:
    given = load("wennberg2021_table3b")
    rows = plan_table(given)
    assert [(one.needs, one.runs) for one in rows] == [("pretrained", [])] * 4
    printed = printed_numbers(given)
    compared = with_comparisons(rows_of(rows), given, printed)
    column = compared[3].columns["mnli_m"]
    assert (column.printed, column.verdict, column.mean) == (81.6, "not run", None)
    assert column.delta_printed == pytest.approx(2.8)
    assert "81.6 not run" in text.markdown(view_of(Table("t", "?", compared)))
