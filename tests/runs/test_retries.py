"""The rule for retries, as the record of a run tells it; every engine's processes pass it on their
way into `execute`."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from pretend import STAGE, pretend, working
from relpos.errors import RelposError
from relpos.files import opened, write_json
from relpos.launch.jobs import Job
from relpos.runs.execute import execute
from relpos.runs.lock import locked
from relpos.runs.retries import CRASHES, Retries
from relpos.runs.run import Run

ONE_TRY = Retries()


@pytest.fixture
def run() -> Run:
    return pretend()


def die(run: Run, times: int = 1) -> None:
    """What the record of a run says after its process was killed."""
    for _ in range(times):
        with locked(run.path):
            if run.state == "running":
                run.note_start(ended="died")
            run.begin()


def save_a_step(run: Run, name: str) -> None:
    """A checkpoint as training leaves it: one file, whose name is another one after each step."""
    folder = run.path / "checkpoint"
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    (folder / f"last-{name}.ckpt").touch()


def ends(run: Run) -> list[str]:
    return [start["ended"] for start in run.record["starts"]]


def test_a_start_is_in_the_record_before_the_work(run, monkeypatch):
    records: list[dict[str, Any]] = []
    monkeypatch.setattr(*working(STAGE, lambda run: records.append(run.record) or {}))
    execute(run)
    assert (records[0]["state"], len(records[0]["starts"])) == ("running", 1)
    assert ends(run) == ["finished"]


def test_a_run_over_which_processes_die_in_a_row_fails_without_another_start(run):
    die(run, CRASHES)
    execute(run, retries=ONE_TRY)
    assert (run.state, ends(run)) == ("failed", ["died", "died", "failed"])
    assert run.record["error"].startswith("its process died 3 times in a row")


def test_fewer_deaths_are_followed_by_another_try(run):
    die(run, CRASHES - 1)
    execute(run, retries=ONE_TRY)
    assert (run.state, ends(run)) == ("finished", ["died", "died", "finished"])


def test_a_try_that_saved_a_step_is_no_crash(run):
    for step in range(5):
        die(run)
        save_a_step(run, str(step))
    execute(run, retries=ONE_TRY)
    assert run.state == "finished"


def test_deaths_count_again_from_the_last_step_that_was_saved(run):
    die(run)
    save_a_step(run, "4")
    die(run, CRASHES)
    execute(run, retries=ONE_TRY)
    assert run.state == "failed"


def test_an_interruption_is_no_crash(run):
    for _ in range(CRASHES + 1):
        die(run)
        run.end("interrupted")
    execute(run, retries=ONE_TRY)
    assert run.state == "finished"


def test_a_new_launch_forgives_deaths_and_failures(run):
    run.end("failed", error="no luck")
    die(run, CRASHES)
    execute(run, retries=Job.now([run], retries=0).retries_of(run))
    assert run.state == "finished"


def test_after_a_failure_by_deaths_the_next_try_may_die_as_often(run):
    twice = Retries(allowed=1)
    die(run, CRASHES)
    execute(run, retries=twice)
    die(run, CRASHES - 1)
    assert run.state == "running"
    die(run)
    execute(run, retries=twice)
    assert (run.state, ends(run).count("failed")) == ("failed", 2)
    assert twice.are_used_up(run.record)


def test_a_command_without_a_rule_always_tries(run):
    run.end("failed", error="no luck")
    die(run, CRASHES)
    execute(run)
    assert run.state == "finished"


def test_a_run_that_has_used_up_its_retries_is_left_alone(run):
    run.end("failed", error="no luck")
    execute(run, retries=ONE_TRY)
    assert (run.state, run.record["error"]) == ("failed", "no luck")


@pytest.mark.parametrize("stop", [False, True])
def test_a_folder_deleted_under_the_process_is_told_and_leaves_nothing(run, stop, monkeypatch):
    def delete(run: Run) -> dict[str, Any]:
        for file in run.path.iterdir():
            file.unlink()
        run.path.rmdir()
        write_json(run.path / "result.json", {})  # what the stage writes afterwards
        if stop:
            raise KeyboardInterrupt
        return {}

    monkeypatch.setattr(*working(STAGE, delete))
    with pytest.raises(
        RelposError, match=f"^{run.path} is gone: it was deleted while the run was under way"
    ):
        execute(run)
    assert not run.path.exists()


@pytest.mark.parametrize("deleted", ["folder", "claim.lock"])
@pytest.mark.parametrize(
    "write",
    [write_json, lambda path, _: opened(path, "a"), lambda path, _: opened(path, "w"), None],
)
def test_a_folder_that_another_process_has_begun_anew_is_left_to_it(
    run, deleted, write, monkeypatch
):
    content = json.dumps(
        {"state": "running", "starts": [{"pid": os.getpid(), "host": socket.gethostname()}]}
    )

    def replace(run: Run) -> dict[str, Any]:
        for file in run.path.iterdir():
            if deleted in ("folder", file.name):
                file.unlink()
        # the other process has the same number, on another machine
        for name in ("claim.lock", "record.json", "log"):
            (run.path / name).write_text(content)
        if write:
            write(run.path / "log", {})
        return {}

    monkeypatch.setattr(*working(STAGE, replace))
    with pytest.raises(RelposError, match="is gone: it was deleted while the run was under way"):
        execute(run)
    assert {(run.path / name).read_text() for name in ("claim.lock", "record.json", "log")} == {
        content
    }


def test_what_a_process_of_another_host_left_behind_is_taken_up(run):
    run.path.mkdir(parents=True)
    (run.path / "claim.lock").touch()
    write_json(
        run.path / "record.json", {"state": "running", "starts": [{"pid": 1, "host": "elsewhere"}]}
    )
    assert execute(run).state == "finished"
    assert ends(run) == ["died", "finished"]


@pytest.mark.parametrize(
    ("every", "written"), [(None, [1000, 2500]), (500, [500, 1000, 1500, 2000, 2500])]
)
def test_writing_checkpoints_takes_little_of_the_time_unless_their_steps_are_given(
    tmp_path, monkeypatch, every, written
):
    """500 steps take 19 seconds, a checkpoint 2."""
    from types import SimpleNamespace

    from relpos.train import checkpoint

    clock, steps = [0.0], []
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: clock[0])

    def save(path: Path) -> None:
        steps.append(trainer.global_step)
        clock[0] += 2

    trainer: Any = SimpleNamespace(max_steps=3000, save_checkpoint=save)
    callback = checkpoint.Checkpointing(tmp_path / "checkpoint", every)
    for trainer.global_step in range(1, 3001):
        clock[0] += 19 / 500
        callback.on_train_batch_end(trainer, SimpleNamespace(gather=dict))  # type: ignore[arg-type]
    assert steps == written
