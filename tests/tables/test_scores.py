"""What the GLUE server answered goes into the table and stays there."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from relpos.cli import main
from relpos.results.values import GLUE
from relpos.runs.table_file import read_table
from relpos.tables.comparison import with_comparisons
from relpos.tables.experiment import load, printed_numbers
from relpos.tables.glue_server import with_scores
from relpos.tables.table import Row, Table
from tables.made_rows import around, row
from tables.small_data import write_experiment
from tables.written_table import table, write


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_experiment(tmp_path, rows={row.name: row.overrides for row in table().rows})
    return write(tmp_path / "runs", table())


def record(*overrides: str) -> int:
    return main(["record-scores", "table=small.yaml", *overrides])


def rows(folder: Path) -> dict[str, Row]:
    return {row.name: row for row in read_table(folder, Table).rows}


def test_scores_stand_in_every_form_of_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record("row=composite", "cola=38.5", "rte=64.1", "ax=12.5") == 0
    row = rows(folder)["composite"]
    assert row.columns["cola"].test == 38.5
    assert row.mean.test == pytest.approx(51.3)  # both of the table's columns are there
    assert row.test == {"cola": 38.5, "rte": 64.1, "ax": 12.5, "glue": None}  # but not all nine
    assert "| composite | 38.5 | 64.1 | 12.5 |" in (folder / "table.md").read_text(encoding="utf-8")
    assert "test 38.5" in (folder / "table.html").read_text(encoding="utf-8")
    with (folder / "table.csv").open(encoding="utf-8") as file:
        assert [line["cola_test"] for line in csv.DictReader(file)] == ["", "", "38.5", ""]
    assert "GLUE server (test)" in capsys.readouterr().out


def test_verdicts_follow(tmp_path: Path) -> None:
    given = load("chang2021_table2")
    made = with_comparisons([row(name, around(80.0), given.rows[name]) for name in given.rows], given, printed_numbers(given))
    folder = write(tmp_path / "runs", Table("chang2021_table2", "?", made))
    name, before = next((row.name, row.columns["rte"]) for row in made if row.columns["rte"].printed is not None)
    printed = before.printed or 0.0
    assert before.verdict is None  # ours is a dev score
    assert main(["record-scores", "table=chang2021_table2", f"row={name}", f"rte={printed + 0.1}"]) == 0
    after = rows(folder)[name].columns["rte"]
    assert (after.test, after.verdict) == (printed + 0.1, "undecided")  # one pre-training each
    assert after.difference == pytest.approx(0.1)


@pytest.mark.full
def test_later_scores_join_the_earlier_ones(folder: Path) -> None:
    assert record("row=composite", "cola=38.5") == 0
    assert record("row=none", "cola=-1.5") == 0
    assert record("row=composite", "rte=64.1", "cola=39.0") == 0
    recorded = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    assert recorded == {"composite": {"cola": 39.0, "rte": 64.1}, "none": {"cola": -1.5}}


def test_of_two_metrics_the_mean_counts(folder: Path) -> None:
    assert record("row=composite", "mrpc=88.0/84.0", "stsb=[80.0,82.0]") == 0
    assert rows(folder)["composite"].test == {"mrpc": 86.0, "stsb": 81.0, "glue": None}


def test_glue_is_the_mean_of_nine_and_wnli_and_ax_stand_beside(folder: Path) -> None:
    overrides = [f"{name}={50 + place}" for place, name in enumerate(GLUE)]
    assert record("row=composite", *overrides, "wnli=65.1", "ax=20") == 0
    assert rows(folder)["composite"].test["glue"] == 54.0


def test_a_table_made_anew_keeps_them(folder: Path) -> None:
    assert record("row=composite", "cola=38.5") == 0
    fresh = with_scores(table().rows, folder)
    assert fresh[2].columns["cola"].test == 38.5
    assert fresh[0] == table().rows[0]


def test_zero_is_a_score(folder: Path) -> None:
    assert record("row=composite", "cola=0") == 0  # what a constant answer gets
    assert rows(folder)["composite"].columns["cola"].test == 0.0


def test_the_side_table_of_choices_stays(tmp_path: Path) -> None:
    names = {"base": ["position=absolute"], "one": ["position=tisa"], "two": ["position=tisa", "kernels=3"]}
    file = write_experiment(tmp_path, rows=names, baseline=["base"], choices=["one", "two"])
    made = [row(name, around(70.0 + place), overrides) for place, (name, overrides) in enumerate(names.items())]
    folder = write(tmp_path / "runs", Table("small", "?", made))
    assert main(["record-scores", f"table={file}", "row=one", "rte=70"]) == 0
    assert "by choice of the row" in (folder / "table.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("overrides", "said"), [
    (["row=composite"], "no score given"),
    (["row=composite", "cola=0.385", "rte=0.64"], "scores are × 100"),
    (["row=composite", "cola=385"], "cola=385: a number from -100 to 100 is expected"),
    (["row=composite", "rte=-3"], "rte=-3: a number from 0 to 100 is expected"),
    (["row=composite", "rte=many"], "rte=many: a number is expected, or two as in 88.1/84.0"),
    (["row=composite", "mrpc=1/2/3"], "mrpc=1/2/3: a number from 0 to 100"),
    (["row=composite", "rte=nan"], "rte=nan: a number from 0 to 100"),
    (["row=compsite", "cola=38"], "unknown row 'compsite'. Did you mean 'composite'?"),
    (["row=composite", "colla=38"], "unknown key 'colla'. Did you mean 'cola'?"),
])  # fmt: skip
def test_a_wrong_override_is_one_line_and_changes_nothing(overrides: list[str], said: str, folder: Path, refused: Any) -> None:
    assert said in refused("record-scores", "table=small.yaml", *overrides)
    assert not (folder / "scores.json").exists()
