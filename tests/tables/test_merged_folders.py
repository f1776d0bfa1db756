"""Runs folders of several machines become one by copying what is not there."""

import shutil
import subprocess
from pathlib import Path

from relpos.cli import main
from relpos.launch.jobs import Job
from relpos.runs.run import input_of, read_record
from relpos.tables.plan import needed, plan_table, runs_of
from tables.small_data import finish, small, write_data, write_experiment


def add(source: Path, target: Path) -> None:
    """As `rsync -a --ignore-existing source/ target/`, by rsync itself where it is there."""
    if shutil.which("rsync"):
        subprocess.run(["rsync", "-a", "--ignore-existing", f"{source}/", f"{target}/"], check=True)
        return
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif not place.exists():
            shutil.copy2(path, place)


def test_a_table_is_made_of_the_runs_of_two_machines_without_training(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("RELPOS_DATA", str(write_data(tmp_path / "data")))
    command = ["reproduce", f"table={write_experiment(tmp_path, tasks=['cola'])}", "engine=debug"]
    for machine, row in (("one", "none"), ("two", "fixed")):
        monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / machine))
        assert main([*command, f"rows=[{row}]"]) == 0
    for machine in ("one", "two"):
        add(tmp_path / machine, tmp_path / "both")
        shutil.rmtree(tmp_path / machine)  # nothing may be read there any more
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / "both"))
    monkeypatch.setattr("relpos.launch.engine.execute", None)
    assert main(command) == 0
    table = (tmp_path / "both" / "tables" / "small" / "table.csv").read_text(encoding="utf-8")
    assert [line.partition(",")[0] for line in table.splitlines()] == ["row", "none", "fixed"]
    tunings = sorted((tmp_path / "both" / "finetune").iterdir())
    assert len(tunings) > 1
    for run in tunings:
        assert read_record(input_of(run, "start"))["state"] == "finished"
    capsys.readouterr()
    # reads the store
    assert (
        main(["order", f"network={input_of(tunings[0], 'start')}", "measure=shuffle", "examples=4"])
        == 0
    )


def test_a_place_outside_of_the_runs_folder_stays_in_a_record_as_it_is(tmp_path):
    folder = tmp_path / "pretrain" / "x"
    folder.mkdir(parents=True)
    (tmp_path / "store" / "a-1").mkdir(parents=True)
    content = '{"inputs": {"store": "store/a-1", "start": "/my/network"}}'
    (folder / "record.json").write_text(content, encoding="utf-8")
    assert [input_of(folder, "store"), input_of(folder, "start")] == [
        tmp_path / "store" / "a-1",
        Path("/my/network"),
    ]


def test_inputs_of_finished_runs_are_not_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("RELPOS_DATA", str(write_data(tmp_path / "data")))
    runs = runs_of(plan_table(small(tmp_path), ["none"]))
    assert needed(runs) == runs
    for run in runs[-2:]:
        finish(run, {"columns": dict.fromkeys(run.meaning["task"]["columns"], 50.0)})
    left = needed(runs)
    assert {run.stage for run in left} == {"finetune"}
    finish(runs[-3], {})
    # what is there is counted
    assert {run.stage for run in needed(runs)} == {"pretrain", "finetune"}
    Job(left).write(tmp_path / "job.json")
    # each with its inputs, which are no part of the job
    assert Job.read(tmp_path / "job.json", is_worker=True).runs == left
