"""What a run's folder says, when it is damaged or cannot be written."""

import sys
import time

import pytest

import relpos
from pretend import STAGE, pretend, trains, working
from relpos.cli import main
from relpos.errors import RelposError
from relpos.runs import training
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.runs.run import read_record, recorded, runs_root
from relpos.runs.shelf import run_folders
from relpos.stages import pretrain


@pytest.mark.parametrize("content", [b"", b'{"state": "fin', b"[1]", b"\xff\xfe", b"[" * 200_000])
def test_a_damaged_record_is_one_line(tmp_path, content):
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(
        RelposError, match=r"damaged record .*record\.json: delete the folder to start anew"
    ):
        read_record(tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [('"steps": 2', '"steps": 20'), ('"state": "finished"', '"state": "failed"'), ('"é"', '"e"')],
)
def test_a_finished_record_that_a_hand_has_changed_is_one_line(before, after, monkeypatch):
    monkeypatch.setattr(
        *working(STAGE, lambda _: {"steps": 2, "columns": {1: 2.5, 10: 1e-7}, "parts": ("é", None)})
    )
    run = execute(pretend())
    assert run.metrics == {"steps": 2, "columns": {"1": 2.5, "10": 1e-7}, "parts": ["é", None]}
    path = run.path / "record.json"
    path.write_text(path.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    with pytest.raises(RelposError, match=r"damaged record .*\(changed since it was written\)"):
        read_record(run.path)


def test_a_run_of_a_worker_has_the_command_that_was_typed(toy_runs, tmp_path, monkeypatch, as_now):
    monkeypatch.setattr(*working("pretrain", trains()))
    as_now()
    table = tmp_path / "t.yaml"
    table.write_text('{question: "?", rows: {a: [position=none]}, tasks: []}', encoding="utf-8")
    assert main(["reproduce", f"table={table}", "engine=local", "workers=1"]) == 0
    [run] = run_folders("pretrain")
    assert read_record(run)["command"] == f"relpos reproduce table={table} engine=local workers=1"


def test_a_run_of_a_script_has_the_scripts(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mine.py", "two words"])
    run = execute(pretend())
    assert run.record["command"] == "mine.py 'two words'"


@pytest.mark.parametrize("content", ["{}", '{"state": "failed"}', '{"stage": "pretrain"}'])
def test_a_record_that_does_not_say_what_the_run_is_is_one_line(content, tmp_path):
    (tmp_path / "record.json").write_text(content, encoding="utf-8")
    (tmp_path / "config.yaml").write_text("seed: 0", encoding="utf-8")
    with pytest.raises(RelposError, match=r"record\.json: no (stage|meaning)"):
        recorded(tmp_path)


def test_an_empty_runs_folder_is_refused(monkeypatch):
    monkeypatch.setenv("RELPOS_RUNS", "")
    with pytest.raises(RelposError, match="RELPOS_RUNS is empty"):
        runs_root()


def test_the_seconds_of_a_run_are_those_of_all_its_starts(monkeypatch):
    run = pretend()

    def interrupted(_: object) -> dict[str, object]:
        time.sleep(0.05)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*working(STAGE, interrupted))
        with pytest.raises(KeyboardInterrupt):
            execute(run)
    assert run.record["seconds"] >= 0.05
    run.update(traceback="of a try that failed")
    execute(run)
    assert run.record["seconds"] >= 0.05
    assert run.record["traceback"] is None


def test_what_a_run_costs_is_asked_before_its_input_may_be_gone(monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(
        sys.modules["relpos.runs.execute"], "costs", lambda _: asked.append("costs") or {}
    )
    monkeypatch.setattr(*working(STAGE, lambda _: asked.append("work") or {}))
    execute(pretend())
    assert asked == ["costs", "work"]


def test_a_pre_training_reads_its_tokenizer_before_it_trains(toy_runs, monkeypatch):
    done: list[str] = []

    def fit(*_: object) -> None:
        done.append("fit")
        raise RelposError("far enough")

    monkeypatch.setattr(pretrain, "load_tokenizer", lambda _: done.append("tokenizer"))
    monkeypatch.setattr(training, "fit", fit)
    with pytest.raises(RelposError, match="far enough"):
        plan(relpos.compose("pretrain", ["steps=2"])).work()
    assert done == ["tokenizer", "fit"]
