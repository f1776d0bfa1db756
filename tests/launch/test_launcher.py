"""Launchers with runs that only pretend to train: retried, shared by two launches, killed at
random; nothing is done twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from pretend import pretend, trains, working
from relpos.errors import RelposError
from relpos.launch.engine import Local, run_all
from relpos.launch.jobs import WAITING, Job, Standing
from relpos.runs.lock import is_locked, locked
from relpos.runs.run import read_record
from tables.small_data import records

Patched = Callable[..., None]
NAME = "none-2x64-toy-seed"


def experiment(folder: Path, **changes: Any) -> Path:
    content = {"question": "?", "rows": {"none": ["position=none"]}, "tasks": []}
    path = folder / "pretend.yaml"
    path.write_text(yaml.safe_dump(content | changes, sort_keys=False), encoding="utf-8")
    return path


def start(table: Path, *overrides: str, command: str = "reproduce") -> subprocess.Popen[str]:
    relpos = [sys.executable, "-m", "relpos.cli", command]
    return subprocess.Popen(
        [*relpos, f"table={table}", *overrides],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=400)
    return process.returncode, out, err


@pytest.fixture
def root(toy_runs: Path) -> Path:
    """The runs folder, with what every pre-training needs."""
    return toy_runs


@pytest.fixture
def pretending(monkeypatch: pytest.MonkeyPatch, as_now: Callable[[], None]) -> Patched:
    """Called, it replaces pre-training in this process and in all that are started from now on, see
    `trains`."""

    def pretending(**how: Any) -> None:
        monkeypatch.setattr(*working("pretrain", trains(**how)))
        as_now()

    return pretending


def test_two_launches_at_once_do_nothing_twice(tmp_path, root, pretending):
    pretending(seconds=0.05)
    table = experiment(tmp_path, pretrain_seeds=30)
    launches = [start(table), start(table)]
    for code, _, err in map(finish, launches):
        assert code == 0, err
    assert [len(record["starts"]) for record in records(root, "pretrain")] == [1] * 30


def test_a_failing_run_is_tried_again_and_then_its_log_is_shown(tmp_path, root, pretending):
    pretending(fails=2, row="twice")
    table = experiment(
        tmp_path, rows={"twice": ["position=none"], "well": ["position=fixed"]}, pretrain_seeds=2
    )
    code, out, err = finish(start(table, "retries=1"))
    assert code == 1
    lines = err.splitlines()
    assert lines[-1] == "relpos: 2 of 7 runs failed; the same command tries them again"
    own = [line for line in lines if line.startswith(f"relpos: pretrain {NAME}")]
    assert sum("a failure on demand" in line for line in own) == 2
    assert "    relpos: a failure on demand" in lines
    assert out.splitlines()[-1] == str(root / "tables/pretend")
    by_state = [(record["state"], len(record["starts"])) for record in records(root, "pretrain")]
    assert sorted(by_state) == [("failed", 2), ("failed", 2), ("finished", 1), ("finished", 1)]
    code, _, err = finish(start(table))  # a new launch forgives, and the third try goes well
    assert code == 0, err
    assert {record["state"] for record in records(root, "pretrain")} == {"finished"}
    # or nobody would look why
    assert sum("after 2 that failed: see " in line for line in err.splitlines()) == 2


@pytest.mark.full
def test_killed_at_random_moments_no_finished_run_is_done_twice(tmp_path, root, pretending):
    pretending(seconds=0.1)
    table = experiment(tmp_path, pretrain_seeds=30)
    chance = random.Random(0)
    for _ in range(3):
        launcher = start(table, "workers=2")
        while not records(root, "pretrain"):
            assert launcher.poll() is None
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.5))
        if workers := at_work(root):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(workers[0], signal.SIGKILL)
        time.sleep(chance.uniform(0.0, 0.3))
        launcher.kill()
        launcher.communicate()
    done = {
        record["identity"]: len(record["starts"])
        for record in records(root, "pretrain")
        if record["state"] == "finished"
    }
    code, _, err = finish(start(table, "workers=2"))
    assert code == 0, err
    after = {record["identity"]: len(record["starts"]) for record in records(root, "pretrain")}
    assert len(after) == 30
    assert all(after[identity] == starts for identity, starts in done.items())
    assert sum(after.values()) <= 30 + 3 * 3


def at_work(root: Path) -> list[int]:
    """The processes in the middle of a run."""
    pids = []
    for folder in (root / "pretrain").iterdir():
        record = read_record(folder)
        if record.state == "running" and is_locked(folder):
            pids.append(record.starts[-1]["pid"])
    return pids


def test_stopping_is_clean(tmp_path, root, pretending):
    pretending(seconds=3600.0)
    table = experiment(tmp_path, pretrain_seeds=2)
    launcher = start(table, "workers=2")
    while len(records(root, "pretrain")) < 2:
        assert launcher.poll() is None
        time.sleep(0.02)
    code, out, _ = finish(start(table, command="status"))
    assert code == 0
    assert "2 running" in out
    launcher.send_signal(signal.SIGINT)
    code, _, err = finish(launcher)
    assert (code, err.splitlines()[-1]) == (
        130,
        "relpos: interrupted; the same command goes on from here",
    )
    assert {record["state"] for record in records(root, "pretrain")} == {"interrupted"}
    assert "2 interrupted" in finish(start(table, command="status"))[1]


@pytest.mark.usefixtures("python")
def test_only_missing_runs_are_started(tmp_path):
    runs = [pretend(seed=seed) for seed in range(50)]
    for run in runs[:-1]:
        run.path.mkdir(parents=True)
        (run.path / "record.json").write_text(json.dumps({"state": "finished"}), encoding="utf-8")
    assert run_all(runs, tmp_path / "table", Local(workers=1)) == []
    assert [len(run.record.get("starts", [])) for run in runs] == [0] * 49 + [1]


def test_runs_that_need_a_failed_run_are_not_begun(tmp_path):
    first = pretend()
    second = pretend(seed=1, first=first)
    first.path.mkdir(parents=True)
    first.end("failed", error="no luck")
    standing = Standing(Job([first, second]))
    assert standing.open() == []
    assert (standing.in_state("failed"), standing.in_state(WAITING)) == ([first], [second])
    assert Standing(Job([first, second], retries=1)).open() == [first, second]
    assert Standing(Job.now([first, second], retries=0)).open() == [first, second]


def test_a_finished_run_serves_others_whatever_became_of_its_inputs():
    started = pretend("started")
    trained = pretend("trained", start=started)
    tuned = pretend("tuned", start=trained)
    started.begin()
    started.end("failed", error="on purpose")
    trained.update(state="finished")
    assert Standing(Job([started, trained, tuned])).open() == [tuned]


def test_a_run_whose_process_is_gone_is_not_running(root):
    run = pretend()
    run.path.mkdir(parents=True)
    run.update(state="running", starts=[{"pid": 1, "host": "elsewhere"}])
    standing = Standing(Job([run]))
    standing.look()
    assert standing.states[run.identity] == "interrupted"
    with locked(run.path):
        standing.look()
        assert standing.states[run.identity] == "running"


def test_a_table_is_not_started_by_torchrun(tmp_path, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RelposError, match="a table is started once"):
        run_all([pretend()], tmp_path / "table", Local(workers=1))
