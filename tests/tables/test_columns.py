"""The numbers of a table, from records written by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from relpos.runs import Run
from relpos.tables.columns import GLUE, statistics, table_of
from relpos.tables.plan import PlannedRow, Tuning
from relpos.tables.render import curves, text, write
from relpos.tables.render.view import leaders

TASKS = {"mnli": ["mnli_m", "mnli_mm"]}


@pytest.fixture(autouse=True)
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / "runs"))


def finish(run: Run, metrics: dict[str, Any]) -> Run:
    run.path.mkdir(parents=True)
    run.update(state="finished", metrics=metrics)
    return run


def pretraining(name: str, perplexity: float | None = 10.0) -> Run:
    run = Run("pretrain", name, {"name": name}, {})
    metrics = {"perplexity": perplexity, "parameters": 1234567, "position_parameters": 17}
    return finish(run, metrics) if perplexity is not None else run


def tuning(row: str, task: str, seed: int, scores: list[float] | None, majority: float = -1.0) -> Tuning:
    names = TASKS.get(task, [task])
    config = {"task": {"columns": names, "metric": "relpos.train.metrics.accuracy"}}
    run = Run("finetune", f"{task}-{row}", {"row": row, "task": task, "seed": seed}, config)
    if scores is not None:
        columns = dict(zip(names, scores, strict=True))
        finish(run, {"columns": columns, "majority": dict.fromkeys(names, majority), "examples": dict.fromkeys(names, 100)})
    return Tuning(task, 0, seed, run)


def row(name: str, scores: dict[str, list[list[float] | None]], perplexity: float | None = 10.0) -> PlannedRow:
    tunings = [tuning(name, task, seed, one) for task, seeds in scores.items() for seed, one in enumerate(seeds)]
    return PlannedRow(name, [f"position={name}"], [pretraining(name, perplexity)], tunings)


def test_mean_and_standard_error_by_hand() -> None:
    found = statistics([30.0, 32.0, 37.0])
    assert found["mean"] == pytest.approx(33.0)
    assert found["sem"] == pytest.approx((26 / 2) ** 0.5 / 3**0.5)  # s² = (9 + 1 + 16) / 2
    assert found["best"] == 37.0
    assert statistics([5.0])["sem"] is None


def test_fine_tunings_of_one_pre_training_are_no_witnesses_of_their_own() -> None:
    found = statistics([69.0, 71.0, 73.0, 75.0], pretrainings=[0, 0, 1, 1])
    assert (found["mean"], found["best"], found["median"]) == (72.0, 75.0, 72.0)
    assert found["sem"] == pytest.approx(2.0)  # of 70 and 74
    assert found["interval"] == [70.0, 74.0]
    assert statistics([69.0, 71.0], pretrainings=[0, 0])["sem"] is None


def test_the_mean_takes_the_best_of_each_column_and_says_how_many_seeds_are_whole() -> None:
    content = table_of([row("none", {"cola": [[10.0], [40.0]], "rte": [[60.0], [50.0]], "sst2": [[90.0], None]})])[0]
    assert (content["mean"]["values"], content["mean"]["n_missing"]) == ([pytest.approx(160 / 3)], 1)
    assert content["mean"]["best"] == pytest.approx((40 + 60 + 90) / 3)
    assert text.cell(content["mean"]) == "53.3, n=1"


def test_the_curve_is_the_mean_of_the_pre_trainings_where_all_have_come() -> None:
    runs = [pretraining("one"), pretraining("two")]
    for run, losses in zip(runs, ({10: 4.0, 20: 2.0}, {10: 5.0}), strict=True):
        lines = [json.dumps({"step": step, "heldout_loss": loss}) + "\n" for step, loss in losses.items()]
        (run.path / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    content = table_of([PlannedRow("none", [], runs, [])])[0]
    assert content["heldout_loss"] == [[10, 4.5]]


def test_where_all_are_equal_none_is_the_best() -> None:
    rows = table_of([row(name, {"cola": [[0.0]], "rte": [[value]]}) for name, value in (("a", 50.0), ("b", 60.0))])
    assert leaders(rows) == {(1, 4), (1, 5)}  # RTE and the mean; neither CoLA nor perplexity


def test_what_is_missing_is_none_and_never_zero() -> None:
    content = table_of([row("none", {"cola": [None, None], "rte": [[50.0], None]}, perplexity=None)])[0]
    assert content["parameters"] is None
    assert content["perplexity"] is None
    assert content["columns"]["cola"]["mean"] is None
    assert content["columns"]["rte"] | {"values": [50.0], "seeds": [0], "n_missing": 1} == content["columns"]["rte"]
    assert content["mean"]["mean"] is None
    assert [text.cell(content["columns"][name]) for name in ("cola", "rte")] == ["—", "50.0, n=1"]


def test_a_failed_run_is_counted() -> None:
    planned = row("none", {"cola": [[10.0], [20.0], None]})
    failed = planned.tunings[2].run
    failed.path.mkdir(parents=True)
    failed.update(state="failed", error="no")
    column = table_of([planned])[0]["columns"]["cola"]
    assert (column["n_failed"], column["n_missing"], column["seeds"]) == (1, 0, [0, 1])
    assert text.cell(column) == "15.0 ± 5.0 (20.0), n=2, 1 failed"


def test_runs_no_better_than_the_majority_class_are_counted() -> None:
    tunings = [tuning("none", "rte", seed, [score], majority=52.7) for seed, score in enumerate((52.7, 47.0, 60.0))]
    column = table_of([PlannedRow("none", [], [pretraining("none")], tunings)])[0]["columns"]["rte"]
    assert (column["n_collapsed"], column["median"]) == (2, 52.7)
    assert column["interval"][0] < column["mean"] < column["interval"][1]
    assert "2 collapsed" in text.cell(column)


def test_glue_is_the_mean_of_nine_columns_seed_by_seed() -> None:
    tasks = ("cola", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli")
    scores: dict[str, list[list[float] | None]] = {task: [[10.0], [40.0]] for task in tasks}
    scores["mnli"] = [[19.0, 28.0], [40.0, 40.0]]
    content = table_of([row("none", scores)])[0]
    assert content["mean"]["of"] == list(GLUE)
    assert content["mean"]["values"] == [pytest.approx(13.0), pytest.approx(40.0)]  # WNLI is not in it
    assert content["mean"]["sem"] == pytest.approx(13.5)
    assert text.header([content])[-1] == "GLUE"


def test_fewer_columns_have_a_mean_by_another_name() -> None:
    content = table_of([row("none", {"cola": [[10.0]], "rte": [[50.0]], "wnli": [[90.0]]})])
    assert content[0]["mean"]["mean"] == pytest.approx(30.0)
    assert text.header(content) == ["row", "parameters", "perplexity", "CoLA", "RTE", "WNLI", "mean of 2"]


def both() -> dict[str, Any]:
    rows = [row("none", {"cola": [[0.0]], "rte": [[51.0]]}, 12.0), row("fixed", {"cola": [[40.0]], "rte": [None]}, 9.0)]
    return {"name": "t", "question": "why?", "rows": table_of(rows), "checks": []}


def test_the_best_are_marked() -> None:
    lines = text.markdown(both()).splitlines()
    assert "| none | 1,234,567 | 12.00 | 0.0 | 51.0 | 25.5 |" in lines
    assert "| fixed | 1,234,567 | **9.00** | **40.0** | — | — |" in lines


def test_files_say_the_same(tmp_path: Path) -> None:
    content = both()
    write.write(tmp_path, content)
    assert json.loads((tmp_path / "table.json").read_text(encoding="utf-8")) == content
    lines = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text(encoding="utf-8"))))
    assert lines[1]["cola"] == "40.0"
    assert (lines[1]["rte"], lines[1]["rte_n"]) == ("", "0")


@pytest.mark.parametrize("width", [30, 200])
def test_the_terminal_shows_every_number_whole(width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    text.terminal(both(), console)
    shown = console.export_text()
    assert all(word in shown for word in ("1,234,567", "12.00", "51.0", "40.0", "—", "CoLA", "fixed"))


def test_curves_are_drawn_once(tmp_path: Path) -> None:
    planned = row("none", {"cola": [[1.0]]})
    lines = [{"step": 1, "heldout_loss": 5.0}, {"step": 1, "loss": 4.0}, {"step": 2, "heldout_loss": 4.5}]
    logged = "".join(json.dumps(line) + "\n" for line in lines)
    (planned.pretrainings[0].path / "metrics.jsonl").write_text(logged + '{"step": 3, "held', encoding="utf-8")
    content = table_of([planned])
    assert content[0]["heldout_loss"] == [[1, 5.0], [2, 4.5]]
    curves.draw(tmp_path / "curves.png", content)
    first = (tmp_path / "curves.png").stat().st_mtime_ns
    curves.draw(tmp_path / "curves.png", content)
    assert (tmp_path / "curves.png").stat().st_mtime_ns == first
    assert "held-out loss at step | 1 | 2 |" in text.markdown({"name": "t", "question": "?", "rows": content, "checks": []})
