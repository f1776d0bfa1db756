"""The best of several rows in each column, and how optimistic its choice on the dev set is."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from relpos.results.statistics import of_errors
from relpos.runs.table_file import RowRun
from relpos.tables.choice import by_choice, side_table
from relpos.tables.table import Row
from tables.made_rows import column, experiment

RIGHT = {"base": "1010", "one": "1110", "two": "1011"}
"""Row → whether each of four examples is answered right: `one` gains on odd examples (0-based 1),
`two` on odd ones too."""


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path))
    return [answered_row(tmp_path, name, right) for name, right in RIGHT.items()]


def answered_row(
    root: Path, name: str, right: str, metric: str = "relpos.train.metrics.accuracy"
) -> Row:
    """A row with one fine-tuning that has kept its answers."""
    dev = root / "finetune" / name / "dev"
    dev.mkdir(parents=True)
    (dev.parent / "record.json").write_text(json.dumps({"meaning": {"task": {"metric": metric}}}))
    (dev / "rte.tsv").write_text(
        "prediction\ttarget\n" + "".join(f"{digit}\t1\n" for digit in right)
    )
    score = 100 * right.count("1") / len(right)
    run = RowRun("finetune", name, "finished", f"finetune/{name}", "rte", 0, 0, {"rte": score})
    return Row(name, [name], columns={"rte": column([score])}, runs=[run])


def chosen(rows: list[Row], choices: list[str], statistic: str = "mean") -> list[str]:
    """The texts of the only column, from the best row on."""
    table = side_table(rows, "base", choices, statistic)
    assert table is not None
    assert table.heads == ["RTE"]
    return [line[0] for _, line in table.lines[len(choices) :]]


def test_the_best_row_and_each_fixed_one_gain_from_scores_that_are_not_rounded(rows):
    assert chosen(rows, ["one", "two"], "median")[0] == "+25.00 (+50.0 %) one"
    assert of_errors(100 * 4 / 872, 100 * (1 - 62 / 872)) == pytest.approx(100 * 4 / 62)


def test_a_row_chosen_on_one_half_is_scored_on_the_other(rows, tmp_path):
    lucky = answered_row(tmp_path, "even", "1111")
    worse = answered_row(tmp_path, "worse", "0101")
    # as good on both halves: chosen both times, (0 + 100) / 2 each
    assert chosen([*rows, lucky, worse], ["even", "worse"])[1:] == ["+50.00", "+50.00", "0.00"]
    # even examples choose `one` (0 seen, +50 unseen); odd ones `worse` (+100 seen, −100 unseen)
    assert chosen([*rows, worse], ["one", "worse"])[1:3] == ["+50.00", "−25.00"]


def test_without_answers_nothing_is_said_of_optimism(rows, tmp_path):
    (tmp_path / "finetune/two/dev/rte.tsv").unlink()
    assert chosen(rows, ["one", "two"])[1:] == ["—"] * 3
    assert side_table(rows[:2], "base", ["one", "two"], "mean") is None


def test_gains_are_means_over_pre_trainings(rows):
    seeds = [(0, 0), (0, 1), (0, 2), (1, 0)]
    for row, last in zip(rows, (50.0, 80.0, 50.0), strict=True):
        row.columns["rte"] = replace(column([50.0, 50.0, 50.0, last]), seeds=seeds)
    # as its difference to the baseline
    assert chosen(rows, ["one", "two"])[0] == "+15.00 (+30.0 %) one"


def test_each_baseline_has_a_table_of_the_rows_that_belong_to_it(rows):
    overrides = {"base": ["base"], "one": ["one", "base"], "two": ["two"]}
    given = experiment(rows=overrides, baseline=["base"], choices=["one"], statistic="median")
    [table] = by_choice([rows[0], rows[1]], given)
    assert table.title == "Δ (Δ%) of medians to base, by choice of the row"
    assert table.lines[0] == ("one in every column", ["+25.00 (+50.0 %)"])
    assert table.lines[1] == ("the best of each column", ["+25.00 (+50.0 %) one"])
