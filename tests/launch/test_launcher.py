"""Launchers with runs that only sleep: retried, shared by two launches, killed at random; nothing is done twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from relpos.commands.status import look, seconds_left
from relpos.errors import RelposError
from relpos.launch.engine import run_all
from relpos.launch.jobs import Job, Standing
from relpos.launch.local import Local
from relpos.launch.progress import ending
from relpos.runs import Run, compose, plan
from relpos.runs.lock import is_locked, locked
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table, runs_of

pytestmark = pytest.mark.usefixtures("python")


def experiment(folder: Path, **changes: Any) -> Path:
    content = {"question": "?", "rows": {"noop": []}, "stages": {"noop": ["seconds=0"]}, "tasks": [], "seeds": 20}
    path = folder / "sleep.yaml"
    path.write_text(yaml.safe_dump(content | changes, sort_keys=False), encoding="utf-8")
    return path


def start(table: Path, *overrides: str, command: str = "reproduce") -> subprocess.Popen[str]:
    relpos = [sys.executable, "-m", "relpos.cli", command]
    return subprocess.Popen([*relpos, f"table={table}", *overrides], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=400)
    return process.returncode, out, err


def records(root: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in (root / "noop").glob("*/record.json")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_two_launches_at_once_do_nothing_twice(tmp_path: Path, root: Path) -> None:
    table = experiment(tmp_path, stages={"noop": ["seconds=0.05"]}, seeds=30)
    launches = [start(table), start(table)]
    for code, _, err in map(finish, launches):
        assert code == 0, err
    assert [len(record["starts"]) for record in records(root)] == [1] * 30


def test_a_failing_run_is_tried_again_and_then_its_log_is_shown(tmp_path: Path, root: Path) -> None:
    rows = {"twice": ["noop.failures=2", "label=a"], "well": ["label=b"]}
    table = experiment(tmp_path, rows=rows, seeds=2)
    code, out, err = finish(start(table, "retries=1"))
    assert code == 1
    lines = err.splitlines()
    assert lines[-1] == "relpos: 2 of 4 runs failed; the same command tries them again"
    assert sum(line.startswith("relpos: noop a-seed") and "a failure on demand" in line for line in lines) == 2
    assert "    relpos: a failure on demand" in lines
    assert out.splitlines()[-1] == str(root / "tables" / "sleep")
    by_state = [(record["state"], len(record["starts"])) for record in records(root)]
    assert sorted(by_state) == [("failed", 2), ("failed", 2), ("finished", 1), ("finished", 1)]
    code, _, err = finish(start(table))  # a new launch forgives, and the third try goes well
    assert code == 0, err
    assert {record["state"] for record in records(root)} == {"finished"}


def test_killed_at_random_moments_no_finished_run_is_done_twice(tmp_path: Path, root: Path) -> None:
    table = experiment(tmp_path, stages={"noop": ["seconds=0.1"]}, seeds=30)
    chance = random.Random(0)
    for _ in range(3):
        launcher = start(table, "workers=2")
        while not records_safely(root):
            assert launcher.poll() is None
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.5))
        if workers := at_work(root):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(workers[0], signal.SIGKILL)
        time.sleep(chance.uniform(0.0, 0.3))
        launcher.kill()
        launcher.communicate()
    done = {record["identity"]: len(record["starts"]) for record in records_safely(root) if record["state"] == "finished"}
    code, _, err = finish(start(table, "workers=2"))
    assert code == 0, err
    after = {record["identity"]: len(record["starts"]) for record in records(root)}
    assert len(after) == 30
    assert all(after[identity] == starts for identity, starts in done.items())
    assert sum(after.values()) <= 30 + 3 * 3


def records_safely(root: Path) -> list[dict[str, Any]]:
    return records(root) if (root / "noop").is_dir() else []


def at_work(root: Path) -> list[int]:
    """The processes in the middle of a run."""
    pids = []
    for path in (root / "noop").glob("*/record.json"):
        if json.loads(path.read_text(encoding="utf-8"))["state"] == "running" and is_locked(path.parent):
            with suppress(ValueError):  # just being written, by a process that has not begun
                pids.append(int(json.loads((path.parent / "claim.json").read_text(encoding="utf-8"))["pid"]))
    return pids


def test_stopping_is_clean(tmp_path: Path, root: Path) -> None:
    table = experiment(tmp_path, stages={"noop": ["seconds=3600"]}, seeds=2)
    launcher = start(table, "workers=2")
    while len(records_safely(root)) < 2:
        assert launcher.poll() is None
        time.sleep(0.02)
    code, out, _ = finish(start(table, command="status"))
    assert code == 0
    assert "sleep: 2 runs: 2 running" in out
    launcher.send_signal(signal.SIGINT)
    code, _, err = finish(launcher)
    assert (code, err.splitlines()[-1]) == (130, "relpos: interrupted; the same command goes on from here")
    assert {record["state"] for record in records(root)} == {"interrupted"}
    assert "2 interrupted" in finish(start(table, command="status"))[1]


def test_only_what_is_missing_is_started(tmp_path: Path, root: Path) -> None:
    runs = runs_of(plan_table(load(str(experiment(tmp_path, seeds=50)))))
    for run in runs[:-1]:
        run.path.mkdir(parents=True)
        (run.path / "record.json").write_text(json.dumps({"state": "finished"}), encoding="utf-8")
    assert run_all(runs, tmp_path / "table", Local(workers=1)) == []
    assert [len(run.record.get("starts", [])) for run in runs] == [0] * 49 + [1]


def test_a_worker_without_a_future_is_told(tmp_path: Path) -> None:
    """What waits for a run that failed is never begun."""
    first, second = (plan(compose("noop", [f"seed={seed}"])) for seed in (0, 1))
    second.inputs["first"] = first
    first.path.mkdir(parents=True)
    first.fail("no luck")
    standing = Standing(Job([first, second]))
    assert standing.open() == []
    assert Standing(Job([first, second], retries=1)).open() == [first, second]
    assert Standing(Job.now([first, second], retries=0)).open() == [first, second]


def noop(label: str, **inputs: Run) -> Run:
    return replace(plan(compose("noop", [f"label={label}"])), inputs=inputs)


def test_a_finished_run_serves_others_whatever_became_of_its_inputs() -> None:
    started = noop("started")
    trained = noop("trained", start=started)
    tuned = noop("tuned", start=trained)
    started.begin()
    started.fail("on purpose")
    trained.update(state="finished")
    assert Standing(Job([started, trained, tuned])).open() == [tuned]


def test_a_settled_run_whose_folder_is_deleted_has_a_line() -> None:
    run = noop("deleted")
    assert ending(run) == f"noop {run.name}: its folder {run.path} is gone"


def test_a_run_whose_process_is_gone_is_not_running(root: Path) -> None:
    run = plan(compose("noop"))
    run.path.mkdir(parents=True)
    run.update(state="running", starts=[{"pid": 1, "host": "elsewhere"}])
    assert look([run])[0].state == "interrupted"
    with locked(run.path):
        assert look([run])[0].state == "running"


def test_time_left_is_read_from_the_newest_line(root: Path) -> None:
    run = plan(compose("pretrain", ["steps=100"]))
    run.path.mkdir(parents=True)
    run.update(state="running")
    (run.path / "metrics.jsonl").write_text('{"step": 60, "loss": 2.0, "steps_per_second": 4.0}\n', encoding="utf-8")
    with locked(run.path):
        assert seconds_left(look([run])[0]) == 10.0


def test_a_table_is_not_started_by_torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RelposError, match="a table is started once"):
        run_all([plan(compose("noop"))], tmp_path / "table", Local(workers=1))
