"""What is typed, the paper's numbers and the GLUE server's, and the baseline row beside a table's
own numbers."""

from dataclasses import replace
from typing import Any

import pytest

from relpos.tables.comparison import with_comparisons
from relpos.tables.experiment import load, printed_numbers
from relpos.tables.plan import plan_table
from relpos.tables.render import text
from relpos.tables.render.view import view_of
from relpos.tables.rows import rows_of
from relpos.tables.table import Column, Row, Table
from tables.made_rows import around, column, experiment, of_pretrainings, row


def compared(
    of_table: list[Row], printed: dict[str, dict[str, float]] | None = None, **fields: Any
) -> list[Column]:
    """The RTE columns of a table, compared in an experiment with these fields."""
    beside = with_comparisons(of_table, experiment(**fields), printed or {})
    return [row.columns["rte"] for row in beside]


@pytest.mark.parametrize(("printed", "expected"), [(60.1, "inside"), (70.0, "outside")])
def test_a_printed_number_lies_inside_or_outside_the_interval_over_pre_trainings(printed, expected):
    rows = [of_pretrainings("base", around(60.0))]
    [beside] = compared(rows, {"base": {"rte": printed, "rte_sem": 0.3}})
    assert (beside.printed_sem, beside.difference, beside.verdict) == (
        0.3,
        pytest.approx(60.0 - printed),
        expected,
    )


@pytest.mark.parametrize("statistic", ["best", "median"])
def test_the_interval_of_a_mean_says_nothing_about_a_best_or_a_median(statistic):
    rows = [of_pretrainings("base", around(60.0))]
    [beside] = compared(rows, {"base": {"rte": 60.0}}, statistic=statistic)
    assert (beside.difference, beside.verdict) == (pytest.approx(0.0), None)


def test_one_pre_training_decides_nothing_whatever_its_fine_tunings_say():
    rows = [row(name, around(value, 0.1)) for name, value in (("base", 60.0), ("other", 70.0))]
    printed = {"other": {"rte": 60.0, "rte_sem": 0.1}}
    _, other = compared(rows, printed, baseline=["base"])
    assert (other.difference, other.verdict) == (pytest.approx(10.0), None)
    assert (other.delta_p, other.delta_p_holm) == (None, None)
    assert other.delta == pytest.approx(10.0)  # of these two models, and so is the interval
    assert other.delta_interval == pytest.approx((10.0, 10.0))


def test_a_dev_score_is_not_compared_with_a_printed_test_score():
    """The authors' own dev scores lie above their test scores in every row; differences to the
    baseline compare."""
    rows = [row(name, around(value)) for name, value in (("base", 73.7), ("other", 76.9))]
    printed = {"base": {"rte": 71.1}, "other": {"rte": 75.2}}
    server = {"base": {"rte": 71.4}}
    base, other = compared(
        rows, printed, baseline=["base"], split="test", statistic="best", server=server
    )
    assert (other.verdict, other.difference, other.printed) == (None, None, 75.2)
    assert (other.delta, other.delta_printed) == (pytest.approx(3.2), pytest.approx(4.1))
    # the server's score minus the printed one, not ours on the dev set
    assert base.difference == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("statistic", "expected"), [("best", (74 + 63) / 2), ("median", (71 + 60) / 2)]
)
def test_a_best_and_a_median_are_those_over_the_fine_tunings_of_one_pre_training(
    statistic, expected
):
    scores = replace(
        column([70.0, 71.0, 74.0, 59.0, 60.0, 63.0]),
        seeds=[(place // 3, place % 3) for place in range(6)],
    )
    rows = [Row("a", columns={"rte": scores})]
    [beside] = compared(rows, {"a": {"rte": 70.0}}, statistic=statistic)
    assert beside.difference == pytest.approx(expected - 70)


def test_a_score_is_compared_with_the_baseline_and_the_printed_number():
    rows = [
        of_pretrainings(name, values)
        for name, values in (("base", around(60.0)), ("better", around(64.0)), ("empty", []))
    ]
    printed = {
        "base": {"rte": 60.1, "rte_sem": 0.3},
        "better": {"rte": 70.0, "rte_sem": 0.3},
        "empty": {"rte": 1.0},
    }
    of_base, of_better, of_empty = compared(rows, printed, baseline=["base"])
    assert (of_better.delta, of_better.delta_percent) == (pytest.approx(4.0), pytest.approx(10.0))
    assert of_better.delta_printed == pytest.approx(9.9)
    assert of_better.delta_p_holm == 0.0  # the seeds are paired: every one gains 4
    assert of_base.delta is None
    assert (of_empty.delta, of_empty.difference, of_empty.verdict) == (None, None, None)


def test_a_row_of_one_pre_training_borrows_the_spread_of_the_others():
    rows = [of_pretrainings("base", around(60.0, 0.3)), of_pretrainings("alone", [64.0])]
    assert compared(rows, baseline=["base"])[1].delta_p < 0.01


def test_each_row_is_held_against_the_baseline_it_shares_most_overrides_with():
    rows = [row(name, around(value), *overrides) for name, value, overrides in (
        ("small_a", 60.0, ["size=small"]), ("base_a", 70.0, ["size=base"]),
        ("base_b", 73.0, ["size=base", "position=b"]), ("small_b", 61.0, ["size=small", "position=b"]))]  # fmt: skip
    overrides = {row.name: row.overrides for row in rows}
    columns = compared(rows, baseline=["small_a", "base_a"], rows=overrides)
    assert [column.delta for column in columns] == [
        None,
        None,
        pytest.approx(3.0),
        pytest.approx(1.0),
    ]


def test_a_baseline_that_was_not_chosen_is_not_replaced_by_another():
    overrides = {
        "small_a": ["size=small"],
        "base_a": ["size=base"],
        "small_b": ["size=small", "position=b"],
    }
    rows = [row(name, around(60.0), *overrides[name]) for name in ("base_a", "small_b")]
    columns = compared(rows, baseline=["small_a", "base_a"], rows=overrides)
    assert [column.delta for column in columns] == [None, None]


def test_fine_tunings_of_one_pre_training_count_once_where_there_are_several():
    rows = []
    for name, shift in (("base", 0.0), ("other", 0.5)):
        values = [
            value + shift * (place % 2) for place, value in enumerate(around(60.0 + 4 * shift))
        ]
        scores = replace(column(values), seeds=[(place % 2, place) for place in range(10)])
        rows.append(Row(name, columns={"rte": scores}))
    _, other = compared(rows, baseline=["base"])
    assert other.delta == pytest.approx(2.25)
    half = 12.706 * 0.25  # two pre-trainings
    assert other.delta_interval == pytest.approx((2.25 - half, 2.25 + half), rel=1e-3)


def test_a_partial_mean_is_not_held_against_printed_glue():
    rows = [row("base", around(60.0))]
    [base] = with_comparisons(rows, experiment(), {"base": {"glue": 70.0}})
    assert (base.mean.printed, base.mean.difference) == (None, None)


def test_a_table_without_its_checkpoint_shows_the_printed_numbers():
    experiment = load("wennberg2021_table3b")
    rows = plan_table(experiment)
    assert [row.runs for row in rows] == [[]] * 4
    printed = printed_numbers(experiment)
    beside = with_comparisons(rows_of(rows), experiment, printed)
    column = beside[3].columns["mnli_m"]
    assert (column.printed, column.difference, column.mean) == (81.6, None, None)
    assert column.delta_printed == pytest.approx(2.8)
    assert "| 81.6 |" in text.markdown(view_of(Table("t", "?", beside)))


@pytest.mark.parametrize("ahead", [0.2, 8.0])
def test_a_column_in_which_no_row_is_ahead_of_an_untrained_one_says_so(ahead):
    control = of_pretrainings("not_pretrained", around(60.0, -1.0), "pretrain.steps=0")
    rows = [control, of_pretrainings("none", around(60.0 + ahead), "position=none")]
    first, second = with_comparisons(rows, experiment(), {})
    assert (first.columns["rte"].learnt, first.columns["rte"].learnt_interval) == (None, None)
    column = second.columns["rte"]
    assert column.learnt == pytest.approx(ahead)
    low, high = column.learnt_interval
    assert (low > 0) is (ahead > 1)
    view = view_of(Table("t", "?", [first, second]))
    assert any("not pre-trained in RTE" in note for note in view.notes) is (low < 0)
    below = next(side.lines for side in view.below if side.title.startswith("above"))
    interval = f"({low:.1f} to {high:.1f})".replace("-", "−")
    assert below == [("not_pretrained", ["—"]), ("none", [f"+{ahead} {interval}"])]
