"""`relpos merge`: runs of several machines become one runs folder."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relpos.cli import main
from relpos.files import write_json
from relpos.launch.jobs import Job
from relpos.runs.run import Run, read_record
from relpos.tables.experiment import load
from relpos.tables.plan import needed, plan_table, runs_of
from relpos.tables.rows import rows_of
from tables.small_data import finish, write_data, write_experiment

PRETRAINED = {"heldout_loss": 3.0, "perplexity": 20.1, "parameters": 1000, "position_parameters": 10}


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The runs of a row of one table, as they would lie in one of two runs folders."""
    monkeypatch.setenv("RELPOS_DATA", str(write_data(tmp_path / "data")))
    file = write_experiment(tmp_path)

    def of_row(machine: str, row: str) -> list[Run]:
        monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / machine))
        return runs_of(plan_table(load(str(file)), [row]))

    return of_row


def train(runs: list[Run]) -> None:
    """Every run finished, with files that a trained run has."""
    for run in runs:
        columns = dict.fromkeys(run.config.get("task", {}).get("columns", ()), 50.0)
        finish(run, {"columns": columns} if columns else PRETRAINED if run.stage == "pretrain" else {})
        for name in ("model/model.safetensors", "snapshots/10.safetensors", "checkpoint/last.ckpt", "dev/cola.tsv", "config.yaml"):
            (run.path / name).parent.mkdir(exist_ok=True)
            (run.path / name).write_text("x", encoding="utf-8")


@pytest.fixture
def merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Merges both machines' runs; what is said of it."""

    def merged(*arguments: str, status: int = 0) -> str:
        monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / "all"))
        assert main(["merge", str(tmp_path / "one"), str(tmp_path / "two"), *arguments]) == status
        return capsys.readouterr().err

    return merged


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_a_table_finds_the_runs_of_both_machines(plans: Any, merged: Any, tmp_path: Path) -> None:
    train(plans("one", "none"))
    train(plans("two", "fixed"))
    merged()
    plan = plan_table(load(str(tmp_path / "small.yaml")))
    assert {row.name: row.columns["cola"].mean for row in rows_of(plan)} == {"none": 50.0, "fixed": 50.0}
    assert [run for run in needed(runs_of(plan)) if run.state != "finished"] == []  # no store is made anew


def test_weights_stay_behind_unless_asked_for(plans: Any, merged: Any, tmp_path: Path) -> None:
    train(plans("one", "none"))
    train(plans("two", "fixed"))
    merged()
    assert files(tmp_path / "all" / "pretrain") == {"record.json", "config.yaml", "cola.tsv", "claim.lock", "claim.json"}
    assert files(tmp_path / "all" / "store") == {"config.yaml", "claim.lock", "claim.json"}
    merged("weights=true")
    assert {"model.safetensors", "10.safetensors"} < files(tmp_path / "all" / "pretrain")
    assert "record.json" in files(tmp_path / "all" / "store")


def test_inputs_are_those_of_this_runs_folder(plans: Any, merged: Any, tmp_path: Path) -> None:
    train(plans("one", "none"))
    train(plans("two", "none"))
    merged()
    (pretraining,) = (run for run in plans("all", "none") if run.stage == "pretrain")
    assert pretraining.record["inputs"]["store"] == str(pretraining.inputs["store"].path)


@pytest.mark.parametrize("place", ["model", "snapshots/10.safetensors"])
def test_a_start_inside_a_run_is_that_of_this_runs_folder(place: str, plans: Any, merged: Any, tmp_path: Path) -> None:
    runs = plans("one", "none")
    train(runs)
    pretraining, tuning = next(run for run in runs if run.stage == "pretrain"), runs[-1]
    tuning.update(inputs={"start": str(pretraining.path / place), "other": "/my/store/of/bert"})
    name, needed = f"{tuning.stage}/{tuning.path.name}", f"pretrain/{pretraining.path.name}"
    train(plans("two", "fixed"))
    merged()
    inputs = read_record(tmp_path / "all" / name)["inputs"]
    assert inputs == {"start": str(tmp_path / "all" / needed / place), "other": "/my/store/of/bert"}


def test_results_that_were_measured_later_are_added(plans: Any, merged: Any, tmp_path: Path) -> None:
    runs = plans("one", "none")
    train(runs)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    merged()
    (pretraining,) = (tmp_path / "two" / "pretrain").iterdir()
    write_json(pretraining / "order" / "shuffle-0.json", {})
    assert "relpos: 0 trained runs copied, 3 were here already, 1 of which got more files" in merged()
    assert merged().endswith("3 were here already\n")
    assert merged("weights=true").endswith("3 were here already, 3 of which got more files\n")
    assert (tmp_path / "all" / "pretrain" / pretraining.name / "order" / "shuffle-0.json").is_file()


def test_a_run_that_was_made_twice_has_one_trunk(plans: Any, merged: Any, tmp_path: Path) -> None:
    for machine in ("one", "two"):
        runs = plans(machine, "none")
        train(runs)
        (pretraining,) = (run for run in runs if run.stage == "pretrain")
        trunk = pretraining.path / "trunk" / f"last-{machine}.ckpt"
        trunk.parent.mkdir()
        trunk.write_text(machine)
    merged("weights=true")
    assert [path.name for path in tmp_path.glob("all/pretrain/*/trunk/*")] == ["last-one.ckpt"]


def test_other_results_of_the_same_run_are_refused_before_anything_is_written(plans: Any, merged: Any, tmp_path: Path) -> None:
    train(plans("one", "none"))
    runs = plans("two", "none")
    train(runs)
    (pretraining,) = (run for run in runs if run.stage == "pretrain")
    pretraining.update(metrics=PRETRAINED | {"heldout_loss": 3.1})
    (said,) = merged(status=1).splitlines()
    assert said.startswith(f"relpos: pretrain/{pretraining.path.name} has other results in two places (metrics.heldout_loss): ")
    assert not list((tmp_path / "all").glob("*"))


def test_other_weights_are_told(plans: Any, merged: Any, tmp_path: Path) -> None:
    folders = []
    for place, sum_ in (("one", "a"), ("two", "b")):
        runs = plans(place, "none")
        train(runs)
        (pretraining,) = (run for run in runs if run.stage == "pretrain")
        pretraining.update(files={"model/model.safetensors": sum_})
        folders.append(pretraining.path)
    assert f"model/model.safetensors in {folders[1]} differs from that in {folders[0]}, which is kept" in merged()


def test_another_configuration_of_the_network_is_another_result(plans: Any, merged: Any) -> None:
    for place, sum_ in (("one", "a"), ("two", "b")):
        runs = plans(place, "none")
        train(runs)
        next(run for run in runs if run.stage == "pretrain").update(files={"model/config.yaml": sum_})
    assert "has other results in two places (model/config.yaml)" in merged(status=1)


def test_other_figures_of_order_are_told(plans: Any, merged: Any) -> None:
    for place, gap in (("one", 1.0), ("two", 2.0)):
        runs = plans(place, "none")
        train(runs)
        write_json(next(run for run in runs if run.stage == "pretrain").path / "order" / "shuffle-0.json", {"gap": gap})
    assert "order/shuffle-0.json in " in merged()


def test_weights_of_another_machine_do_not_come_under_a_record_with_other_checksums(
    plans: Any, merged: Any, tmp_path: Path
) -> None:
    for place, content in (("one", "x"), ("two", "y")):
        runs = plans(place, "none")
        train(runs)
        (pretraining,) = (run for run in runs if run.stage == "pretrain")
        (pretraining.path / "model" / "model.safetensors").write_text(content)
        sums = {"model/model.safetensors": hashlib.sha256(content.encode()).hexdigest()}
        pretraining.update(files=sums)
    shutil.rmtree(tmp_path / "one" / "pretrain" / pretraining.path.name / "model")
    merged("weights=true")
    assert "model.safetensors" not in files(tmp_path / "all" / "pretrain")


def test_damaged_weights_are_refused(plans: Any, merged: Any) -> None:
    for place in ("one", "two"):
        runs = plans(place, "none")
        train(runs)
    next(run for run in runs if run.stage == "pretrain").update(files={"model/model.safetensors": "0" * 64})
    assert "damaged: " in merged("weights=true", status=1)


def test_a_hard_link_is_refused(plans: Any, merged: Any, tmp_path: Path) -> None:
    for place in ("one", "two"):
        train(plans(place, "none"))
    (log,) = (folder / "log.txt" for folder in (tmp_path / "two" / "pretrain").iterdir())
    (tmp_path / "id_rsa").write_text("secret", encoding="utf-8")
    os.link(tmp_path / "id_rsa", log)
    assert f"relpos: {log} is a hard link" in merged(status=1)
    assert not list((tmp_path / "all").glob("*"))


def test_a_runs_folder_that_cannot_be_written_to_is_named(
    plans: Any, merged: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("one", "two"):
        train(plans(place, "none"))
    assert "trained runs copied" in merged()
    monkeypatch.setattr("os.access", lambda path, mode: tmp_path / "all" not in Path(path).parents)  # tests may run as root
    (said,) = merged(status=1).splitlines()
    assert said.endswith("cannot be written to, and runs would be merged into it: see RELPOS_RUNS")
    assert str(tmp_path / "all") in said


def test_two_results_that_are_no_number_are_the_same(plans: Any, merged: Any) -> None:
    for place in ("one", "two"):
        runs = plans(place, "none")
        train(runs)
        (pretraining,) = (run for run in runs if run.stage == "pretrain")
        pretraining.update(metrics=PRETRAINED | {"perplexity": float("nan"), "parts": {"sts": [1.0, float("nan")]}})
    assert "trained runs copied" in merged()


def test_what_is_unfinished_or_damaged_is_told(plans: Any, merged: Any, tmp_path: Path) -> None:
    train(plans("one", "none"))
    runs = plans("two", "fixed")
    train(runs)
    runs[-1].update(state="running")
    assert "5 trained runs copied, 0 were here already, 1 unfinished one left out" in merged()
    (tmp_path / "two" / "finetune" / runs[-2].path.name / "record.json").write_text("{", encoding="utf-8")
    assert "relpos: damaged record" in merged(status=1)


def test_a_folder_without_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one").mkdir()
    assert main(["merge", str(tmp_path / "one")]) == 1
    assert main(["merge", str(tmp_path / "nowhere")]) == 1
    said = capsys.readouterr().err.splitlines()
    assert "one: no runs; a runs folder is expected" in said[0]
    assert said[1].endswith("nowhere: there is no such folder")


def test_inputs_of_finished_runs_are_not_made_again(plans: Any, tmp_path: Path) -> None:
    runs = plans("one", "none")
    assert needed(runs) == runs
    train(runs[-2:])
    left = needed(runs)
    assert {run.stage for run in left} == {"finetune"}
    train(runs[-3:-2])
    assert {run.stage for run in needed(runs)} == {"pretrain", "finetune"}  # what is there is counted
    Job(left).write(tmp_path / "job.json")
    assert Job.read(tmp_path / "job.json").runs == left  # each with its inputs, which are no part of the job


def test_what_an_unfinished_run_has_here_gives_way_to_finished_results(plans: Any, merged: Any, tmp_path: Path) -> None:
    train(plans("one", "none"))
    train(plans("two", "none"))
    (pretraining,) = (tmp_path / "one" / "pretrain").iterdir()
    (pretraining / "metrics.jsonl").write_text("whole", encoding="utf-8")
    (pretraining / "model" / ".model.safetensors.17").write_text("half", encoding="utf-8")
    here = tmp_path / "all" / "pretrain" / pretraining.name
    write_json(here / "record.json", {"state": "interrupted"})
    (here / "metrics.jsonl").write_text("half", encoding="utf-8")
    merged("weights=true")
    assert (here / "metrics.jsonl").read_text(encoding="utf-8") == "whole"
    assert ".model.safetensors.17" not in files(here)
