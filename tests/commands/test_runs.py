"""`relpos status` without a table."""

import json
import re
from pathlib import Path

import pytest

from pretend import STAGE, pretend
from relpos.cli import main
from relpos.config.compose import compose
from relpos.launch.jobs import Job
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.runs.run import Run


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Run]:
    """Runs of the tests' stage, of which a table uses the first."""
    runs = {name: execute(pretend(name)) for name in ("used", "first", "second")}
    (runs["first"].path / "big").write_bytes(bytes(2_500_000))
    Job.now([runs["used"]], 0).write(tmp_path / "runs/tables/mine/plan.json")
    return runs


def listed(capsys: pytest.CaptureFixture[str], *command: str) -> list[list[str]]:
    capsys.readouterr()
    assert main(["status", *command]) == 0
    return [re.split(r" {2,}", line) for line in capsys.readouterr().out.splitlines()]


def users(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Label of a run → what uses it."""
    return {line[0].partition("/")[2].partition("-")[0]: line[-1] for line in listed(capsys)[1:-1]}


def write_table(folder: Path, run: Run) -> None:
    """Writes a table of one row with this run."""
    path = f"{STAGE}/{run.path.name}"
    shown = {"stage": STAGE, "identity": "", "state": "finished", "path": path}
    rows = [{"name": "a", "runs": [shown]}]
    (folder / "table.json").write_text(json.dumps({"rows": rows}))


def test_each_run_is_a_line_and_runs_without_a_table_stand_first(three, tmp_path, capsys):
    head, *lines, last = listed(capsys)
    heads = "run|state|date|step|figure|tokens/s|on disk|used by"
    assert "|".join(head) == heads
    assert [line[0] for line in lines] == [
        f"pretend/{three[name].path.name}" for name in ("first", "second", "used")
    ]
    assert [line[1] for line in lines] == ["finished"] * 3
    assert [line[-1] for line in lines] == ["–", "–", "table mine"]
    assert lines[0][-2].endswith("2.5 MB")
    assert last == [str(tmp_path / "runs")]


def test_a_run_that_a_table_shows_is_used_though_its_newest_launch_did_not_ask_for_it(
    three, tmp_path, capsys
):
    write_table(tmp_path / "runs/tables/mine", three["second"])
    assert users(capsys) == {"first": "–", "second": "table mine", "used": "table mine"}


def test_the_list_of_runs_has_figures_states_and_readers(toy_runs, capsys, monkeypatch):
    monkeypatch.setattr("relpos.train.pretrain.get_available_flops", lambda *_: 10**10)
    run = execute(plan(compose("pretrain", ["steps=2", "batch=4", "evaluations=1"])))
    for name, text in (("stopped", '{"state": "running", "inputs": {}}'), ("damaged", "{")):
        folder = toy_runs / "pretrain" / name
        folder.mkdir()
        (folder / "record.json").write_text(text)
    lines = {line[0].partition("-")[0]: line for line in listed(capsys)}
    assert lines["pretrain/absolute"][3:5] == [
        "2/2",
        f"heldout_loss {run.metrics['heldout_loss']:.4g}",
    ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", lines["pretrain/absolute"][2])
    assert f"tokens {run.inputs['store'].metrics['tokens']:,}" in lines["store/toy"]
    assert lines["store/toy"][-1] == "1 of these runs"
    assert lines["pretrain/stopped"][1] == "interrupted"
    assert lines["pretrain/damaged"][1] == "damaged"
    assert main(["status", "format=json"]) == 0
    values = {entry["run"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert len(values) == len(lines) - 2
    shown = values[f"pretrain/{run.path.name}"]
    assert {"step": "2/2", "state": "finished"}.items() <= shown.items()
    assert shown["figures"]["heldout_loss"] == run.metrics["heldout_loss"]
    speed, per_token = shown["speed"], run.record["flops_per_token"]
    assert speed["mfu"] == pytest.approx(speed["real_tokens_per_second"] * per_token / 10**10)
    assert (
        f"{speed['real_tokens_per_second']:,.0f} MFU {speed['mfu']:.2f}"
        in lines["pretrain/absolute"]
    )


def test_a_table_as_json_has_its_runs_those_that_are_missing_too(three, tmp_path, capsys):
    missing = pretend("missing")
    Job.now([three["used"], missing], 0).write(tmp_path / "runs/tables/mine/plan.json")
    assert main(["status", "table=mine", "format=json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(run["run"], run["state"]) for run in shown] == [
        (f"{STAGE}/{three['used'].path.name}", "finished"),
        (f"{STAGE}/{missing.path.name}", "missing"),
    ]


@pytest.mark.parametrize("place", ["", "model", "snapshots/10.safetensors"])
def test_a_run_that_starts_from_another_run_s_network_is_its_reader(place, three, capsys):
    three["second"].update(inputs={"start": str(three["first"].path / place)})
    assert users(capsys) == {"first": "1 of these runs", "second": "–", "used": "table mine"}


def test_a_damaged_plan_is_named_and_hides_no_run_that_its_table_shows(three, tmp_path, capsys):
    damaged = tmp_path / "runs/tables/damaged"
    damaged.mkdir()
    (damaged / "plan.json").write_text("{")
    write_table(damaged, three["second"])
    assert main(["status"]) == 0
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 5
    assert "table damaged" in output.out
    assert f"{damaged / 'plan.json'}: damaged" in output.err


def test_without_runs_the_list_has_no_lines(capsys):
    assert len(listed(capsys)) == 2
