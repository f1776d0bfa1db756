"""A verdict can come out each way, and says what it was held against."""

import os
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from relpos.results import contrast
from relpos.results.contrast import Spread
from relpos.tables.comparison import Printed, difference, unit, verdict, with_comparisons
from relpos.tables.experiment import load, printed_numbers
from relpos.tables.plan import plan_table
from relpos.tables.render import text
from relpos.tables.render.view import view_of
from relpos.tables.rows import rows_of
from relpos.tables.table import Row, Table
from tables.made_rows import around, column, experiment, of_pretrainings, row

FULL = bool(os.environ.get("RELPOS_FULL"))
"""Simulations are long with it."""


def judged(values: list[float], printed: Printed, server: float | None = None) -> str:
    """Of pre-trainings with these scores, whose spread is their own."""
    units = dict(enumerate(values))
    spread = contrast.spread({"row": units}, "row")
    return verdict(len(values), difference(units, printed, spread, server), printed.bound(spread))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (around(40.0), "reproduced"),
        (around(46.0), "above"),
        (around(34.0), "below"),
        (around(45.2, 4.0), "undecided"),
        ([40.0], "undecided"),
        ([], "not run"),
    ],
)
def test_each_verdict_against_a_mean_with_its_error(values: list[float], expected: str) -> None:
    assert judged(values, Printed(40.0, 0.4)) == expected


def test_a_clear_difference_that_is_too_small_to_matter_is_a_reproduction() -> None:
    units = dict(enumerate(around(40.3, 0.1)))
    found = difference(units, Printed(40.0, 0.04), contrast.spread({"row": units}, "row"))
    assert found.low > 0
    assert judged(around(40.3, 0.1), Printed(40.0, 0.04)) == "reproduced"


def test_the_bound_is_the_precision_of_the_experiment() -> None:
    assert Printed(7.0, 2.4).bound(None) == pytest.approx((1.96 + 0.8416) * sqrt(2) * 2.4, rel=1e-3)
    assert Printed(7.0, 0.1).bound(Spread(2.4**2, 10.0)) == pytest.approx((1.96 + 0.8416) * sqrt(2) * 2.4, rel=1e-3)
    assert Printed(84.9, 0.0).bound(None) == 0.5
    assert Printed(75.2).bound(None) == 1.0


@pytest.mark.parametrize(("mean", "expected"), [(75.0, "reproduced"), (79.0, "above"), (71.0, "below"), (76.04, "undecided")])
def test_each_verdict_against_a_median_without_spread(mean: float, expected: str) -> None:
    assert judged(around(mean, 0.8), Printed(75.0, runs=5, statistic="median")) == expected


def test_a_best_of_three_is_corrected_to_a_best_of_ten() -> None:
    chance = np.random.default_rng(0)
    of_three = [unit([list(chance.normal(size=3))], "best", 10) for _ in range(4_000)]
    assert None not in of_three
    assert np.mean(np.asarray(of_three, dtype=float)) == pytest.approx(1.54, abs=0.05)  # expected of the best of ten
    assert unit([[70.0]], "best", 10) is None
    assert unit([[70.0, 74.0], [60.0]], "median", 5) == 66.0


def test_one_pre_training_decides_nothing_whatever_its_fine_tunings_say() -> None:
    rows = [row(name, around(value, 0.1), []) for name, value in (("base", 60.0), ("other", 70.0))]
    compared = with_comparisons(rows, experiment(baseline=["base"]), {"other": {"rte": 60.0, "rte_sem": 0.1}})[1].columns["rte"]
    assert compared.verdict == "undecided"
    assert (compared.delta_p, compared.delta_p_holm) == (None, None)
    assert compared.delta == pytest.approx(10.0)  # of these two models, and so is the interval
    assert compared.delta_interval == pytest.approx((10.0, 10.0))


def faithful(chance: np.random.Generator, rows: int, seeds: int) -> tuple[dict[str, dict[int, float]], float]:
    """Rows of one scale, each of another true score, and what a paper prints of the first: 0.3 between pre-trainings."""
    true = chance.normal(75.0, 2.0, rows)
    shared = chance.normal(0.0, 0.15, seeds)
    scores = true[:, None] + shared + chance.normal(0.0, 0.26, (rows, seeds))
    return {str(place): dict(enumerate(of_row)) for place, of_row in enumerate(scores)}, float(true[0] + chance.normal(0.0, 0.3))


def share_called_different(rows: int, seeds: int, sem: float, times: int) -> float:
    chance = np.random.default_rng(1)
    called = []
    for _ in range(times):
        units, number = faithful(chance, rows, seeds)
        spread = contrast.spread(units, "0")
        printed = Printed(number, sem)
        called.append(verdict(seeds, difference(units["0"], printed, spread), printed.bound(spread)))
    return float(np.mean([word in ("above", "below") for word in called]))


@pytest.mark.parametrize(("rows", "seeds"), [(15, 3), (4, 3), (1, 5)])
def test_faithful_reproductions_are_seldom_called_different(rows: int, seeds: int) -> None:
    assert share_called_different(rows, seeds, sem=0.1, times=1_000 if FULL else 150) <= 0.07


def test_a_dev_score_gets_no_verdict_beside_a_test_score() -> None:
    """The authors' own dev scores lie above their test scores in every row; differences to the baseline compare."""
    rows = [row(name, around(value), []) for name, value in (("base", 73.7), ("other", 76.9))]
    printed = {"base": {"rte": 71.1}, "other": {"rte": 75.2}}
    given = experiment(baseline=["base"], split="test", statistic="best")
    compared = with_comparisons(rows, given, printed)[1].columns["rte"]
    assert (compared.verdict, compared.difference, compared.printed) == (None, None, 75.2)
    assert (compared.delta, compared.delta_printed) == (pytest.approx(3.2), pytest.approx(4.1))
    assert with_comparisons([row("other", [], [])], given, printed)[0].columns["rte"].verdict == "not run"


@pytest.mark.parametrize(("statistic", "expected"), [("best", (74 + 63) / 2), ("median", (71 + 60) / 2)])
def test_a_best_and_a_median_are_those_over_the_fine_tunings_of_one_pre_training(statistic: str, expected: float) -> None:
    scores = replace(column([70.0, 71.0, 74.0, 59.0, 60.0, 63.0]), seeds=[(place // 3, place % 3) for place in range(6)])
    (found,) = with_comparisons([Row("a", columns={"rte": scores})], experiment(statistic=statistic), {"a": {"rte": 70.0}})
    assert found.columns["rte"].difference == pytest.approx(expected - 70)


def test_the_servers_score_stands_beside_a_test_score() -> None:
    assert judged(around(80.0, 0.1), Printed(75.0), server=75.1) == "reproduced"
    assert judged(around(80.0, 0.1), Printed(75.0), server=78.0) == "above"


def test_what_stands_beside_a_cell() -> None:
    rows = [of_pretrainings(name, values, []) for name, values in (("base", around(60.0)), ("better", around(64.0)), ("empty", []))]
    printed = {"base": {"rte": 60.1, "rte_sem": 0.3}, "better": {"rte": 70.0, "rte_sem": 0.3}, "empty": {"rte": 1.0}}
    base, better, empty = with_comparisons(rows, experiment(baseline=["base"]), printed)
    of_base, of_better, of_empty = (compared.columns["rte"] for compared in (base, better, empty))
    assert [column.verdict for column in (of_base, of_better, of_empty)] == ["reproduced", "below", "not run"]
    assert of_better.difference == pytest.approx(-6.0)
    assert of_better.difference_interval[1] < 0
    assert (of_better.delta, of_better.delta_percent) == (pytest.approx(4.0), pytest.approx(10.0))
    assert of_better.delta_printed == pytest.approx(9.9)
    assert of_better.delta_p_holm == 0.0  # the seeds are paired: every one gains 4
    assert of_base.delta is None
    assert of_empty.delta is None


def test_a_row_of_one_pre_training_borrows_the_spread_of_the_others() -> None:
    rows = [of_pretrainings("base", around(60.0, 0.3), []), of_pretrainings("alone", [64.0], [])]
    compared = with_comparisons(rows, experiment(baseline=["base"]), {"alone": {"rte": 64.1, "rte_sem": 0.1}})[1].columns["rte"]
    assert compared.verdict == "reproduced"
    assert compared.delta_p < 0.01


def test_each_row_is_held_against_the_baseline_it_shares_most_overrides_with() -> None:
    rows = [row(name, around(value), overrides) for name, value, overrides in (
        ("small_a", 60.0, ["size=small"]), ("base_a", 70.0, ["size=base"]),
        ("base_b", 73.0, ["size=base", "position=b"]), ("small_b", 61.0, ["size=small", "position=b"]))]  # fmt: skip
    given = experiment(baseline=["small_a", "base_a"], rows={row.name: row.overrides for row in rows})
    found = {compared.name: compared.columns["rte"].delta for compared in with_comparisons(rows, given, {})}
    assert found == {"small_a": None, "base_a": None, "base_b": pytest.approx(3.0), "small_b": pytest.approx(1.0)}


def test_a_baseline_that_was_not_chosen_is_not_replaced_by_another() -> None:
    overrides = {"small_a": ["size=small"], "base_a": ["size=base"], "small_b": ["size=small", "position=b"]}
    rows = [row(name, around(60.0), overrides[name]) for name in ("base_a", "small_b")]
    found = with_comparisons(rows, experiment(baseline=["small_a", "base_a"], rows=overrides), {})
    assert [compared.columns["rte"].delta for compared in found] == [None, None]


def test_fine_tunings_of_one_pre_training_count_once_where_there_are_several() -> None:
    rows = []
    for name, shift in (("base", 0.0), ("other", 0.5)):
        values = [value + shift * (place % 2) for place, value in enumerate(around(60.0 + 4 * shift))]
        scores = replace(column(values), seeds=[(place % 2, place) for place in range(10)])
        rows.append(Row(name, columns={"rte": scores}))
    compared = with_comparisons(rows, experiment(baseline=["base"]), {})[1].columns["rte"]
    assert compared.delta == pytest.approx(2.25)
    assert compared.delta_interval == pytest.approx((2.25 - 12.706 * 0.25, 2.25 + 12.706 * 0.25), rel=1e-3)  # two pre-trainings


def test_a_partial_mean_is_not_held_against_printed_glue() -> None:
    found = with_comparisons([row("base", around(60.0), [])], experiment(), {"base": {"glue": 70.0}})[0]
    assert found.mean.verdict is None


def test_a_table_that_needs_something_shows_the_printed_numbers_and_not_run() -> None:
    given = load("wennberg2021_table3b")
    rows = plan_table(given)
    assert [one.runs for one in rows] == [[]] * 4
    printed = printed_numbers(given)
    compared = with_comparisons(rows_of(rows), given, printed)
    column = compared[3].columns["mnli_m"]
    assert (column.printed, column.verdict, column.mean) == (81.6, "not run", None)
    assert column.delta_printed == pytest.approx(2.8)
    assert "81.6 not run" in text.markdown(view_of(Table("t", "?", compared)))


@pytest.mark.parametrize(
    ("travel", "printed", "is_told"), [(0.15, 60.0, True), (18.0, 60.0, False), (0.15, None, False), (None, 60.0, False)]
)
def test_a_verdict_says_where_positions_could_not_move_far(travel: float | None, printed: float | None, is_told: bool) -> None:
    rows = [replace(row("fixed", around(60.0), []), travel=travel)]
    compared = with_comparisons(rows, experiment(), {"fixed": {"rte": printed}} if printed else {})
    said = text.markdown(view_of(Table("t", "?", compared)))
    assert ("In fixed position parameters could move by at most about 0.15" in said) == is_told
