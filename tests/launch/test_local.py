"""Workers on this machine: crashes, runs that cannot be written, the GPUs that a worker sees."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pretend import STAGE, PretendConfig, bare, pretend, working
from relpos.config.compose import compose
from relpos.errors import RelposError
from relpos.launch.engine import FRUITLESS, Local, LocalWorkers, run_all
from relpos.launch.jobs import LOGGERS, Job, Standing
from relpos.launch.worker import work
from relpos.ranges import shown
from relpos.runs.retries import CRASHES, failures
from relpos.runs.run import Run
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table, runs_of
from tables.small_data import write_experiment


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """Ends a worker in this process that does not end by itself."""
    event = threading.Event()
    timer = threading.Timer(600, event.set)
    timer.start()
    yield event
    timer.cancel()


pytestmark = pytest.mark.usefixtures("python")


def worker(file: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """A worker that has ended."""
    command = [sys.executable, "-m", "relpos.launch.worker", str(file)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=400, check=False, **options
    )


def on_two_nodes(name: str = "two") -> Run:
    return bare(
        "pretrain", name, {"name": name}, {"speed": {"devices": 1, "nodes": 2, "threads": 1}}
    )


def test_an_error_before_there_is_a_record_is_a_failure(stop):
    run, other = on_two_nodes(), pretend("other")
    work(Job([run, other], retries=1), stop)
    assert not stop.is_set()
    assert (run.state, failures(run.record), other.state) == ("failed", 2, "finished")
    assert run.record["error"].startswith("speed.nodes=2: start the command on every node")


def test_leaving_python_is_a_failure(stop, monkeypatch):
    monkeypatch.setattr(*working(STAGE, lambda run: sys.exit(0)))
    run = pretend()
    work(Job([run]), stop)
    assert (run.state, failures(run.record)) == ("failed", 1)


def test_a_run_that_cannot_be_written_is_named_at_the_end(tmp_path):
    """Neither the run nor what needs it is waited for; other runs are done."""
    blocked, behind, other = pretend("blocked"), pretend("behind"), pretend("other")
    behind.inputs["first"] = blocked
    blocked.path.parent.mkdir(parents=True)
    blocked.path.write_text("in its place", encoding="utf-8")
    file = tmp_path / "launch/job.json"
    Job([blocked, behind, other]).write(file)
    tether, launcher = os.pipe()
    ended = worker(file, stdin=tether)
    os.close(tether)
    os.close(launcher)
    expected = f"relpos: these runs can be neither executed nor marked as failed: {blocked.path}"
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, expected)
    assert other.state == "finished"
    with pytest.raises(RelposError, match="workers end with status 1"):
        run_all([blocked, behind, other], tmp_path / "table", Local(workers=1))


def test_settings_of_loggers_are_in_no_file_of_a_job(tmp_path, monkeypatch):
    loggers = [{"key": "secret"}, {"key": "other secret"}, {"key": "secret"}, {}]
    runs = [
        replace(pretend(seed=n), config=PretendConfig(logger=logger))
        for n, logger in enumerate(loggers)
    ]
    file = tmp_path / "job.json"
    Job(runs).write(file)
    assert "secret" not in file.read_text()
    read: Any = Job.read(file, is_worker=True).runs
    assert [run.config.logger for run in read] == loggers
    identities = [run.identity for run in runs]
    assert [run.identity for run in Job.read(file).runs] == identities
    monkeypatch.delenv(LOGGERS)
    message = f"{LOGGERS} in the environment does not say how its runs are logged"
    with pytest.raises(RelposError, match=message):
        Job.read(file, is_worker=True)


def test_runs_that_crash_their_workers_do_not_end_the_launch(tmp_path):
    bad, good = pretend("kills", then="kill"), [pretend("good", seed) for seed in range(3)]
    assert run_all([bad, *good], tmp_path / "table", Local(workers=2)) == [bad]
    assert {run.state for run in good} == {"finished"}
    assert len(bad.record["starts"]) == CRASHES
    assert bad.record["error"].startswith(f"its process died {CRASHES} times in a row")


def test_a_damaged_job_is_one_line(tmp_path):
    (file := tmp_path / "job.json").write_text('{"runs": 1}', encoding="utf-8")
    done = worker(file)
    assert done.returncode == 1
    assert done.stderr.startswith(f"relpos: {file}")
    assert done.stderr.count("\n") == 1


def test_a_run_that_leaves_python_does_not_end_the_launch(tmp_path):
    runs = [pretend("exits", then="exit"), pretend("good")]
    assert run_all(runs, tmp_path / "table", Local(workers=1)) == runs[:1]


@pytest.mark.parametrize(
    ("command", "message"), [("false", r"status 1: see .*worker-1\.log"), ("true", "status 0")]
)
def test_workers_that_end_before_all_is_done_end_the_launch(
    command, message, tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "executable", command)
    with pytest.raises(RelposError, match=f"workers end with {message}"):
        run_all([pretend("never")], tmp_path / "table", Local(workers=2))


def test_workers_that_die_at_work_are_started_again_and_those_that_begin_nothing_are_not(
    tmp_path, monkeypatch
):
    run = pretend("kills", then="kill")
    monkeypatch.setattr(
        "relpos.launch.engine.started", lambda *_, **__: SimpleNamespace(poll=lambda: 1)
    )
    workers = LocalWorkers(Standing(Job([run])), tmp_path, [{}])
    for _ in range(5):
        for _ in range(FRUITLESS - 1):
            workers.poll()
        run.path.mkdir(parents=True, exist_ok=True)
        run.begin()
        workers.poll()
    for _ in range(FRUITLESS - 1):
        workers.poll()
    with pytest.raises(RelposError, match="workers end with status 1: see"):
        workers.poll()


def test_launchers_of_one_number_have_folders_of_their_own(tmp_path):
    """Containers number their processes each for itself."""
    folders: list[Path] = []

    class Refusing:
        def start(self, standing: Standing, folder: Path) -> None:
            folders.append(folder)
            raise RelposError("no")

    for _ in range(2):
        with pytest.raises(RelposError, match="no"):
            run_all([pretend("never")], tmp_path / "table", Refusing())
    assert len(set(folders)) == 2
    assert all(folder.name.startswith("launch-") for folder in folders)
    assert not folders[0].exists()  # the next launch has removed it


@pytest.mark.parametrize(("key", "value"), [
    ("workers", -1), ("workers", 0), ("workers", 2.5), ("workers", "abc"), ("workers", True), ("threads", "two"), ("threads", -2),
    ("runs_per_device", 0), ("runs_per_device", None),
])  # fmt: skip
def test_a_wrong_argument_of_local_is_named(key, value):
    with pytest.raises(RelposError) as error:
        compose("reproduce", ["table=demo", f"engine.{key}={shown(value)}"])
    assert str(error.value).startswith(f"engine.{key}={shown(value)}: ")
    assert "expected" in str(error.value)


def test_which_gpus_workers_see(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\necho "gpus $CUDA_VISIBLE_DEVICES" >> {tmp_path}/seen\n', encoding="utf-8"
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    standing = Standing(Job([on_two_nodes(name) for name in ("a", "b")]))

    def seen(engine: Local) -> list[str]:
        (tmp_path / "seen").unlink(missing_ok=True)
        engine.start(standing, tmp_path).shutdown()
        return sorted((tmp_path / "seen").read_text(encoding="utf-8").splitlines())

    assert seen(Local()) == ["gpus 4", "gpus 5"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert seen(Local(workers=1)) == ["gpus "]


def test_local_workers_divide_the_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("RELPOS_DATA", str(tmp_path / "nothing"))
    experiment = load(str(write_experiment(tmp_path)))
    rows = runs_of(plan_table(experiment))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert Local(workers=3).places(rows) == [{}] * 3
    assert Local(workers=9).places(rows[:2]) == [{}] * 2  # no more than runs
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    first, second, both = ({"CUDA_VISIBLE_DEVICES": names} for names in ("3", "5", "3,5"))
    assert Local().places(rows) == [first, second]
    assert Local(runs_per_device=2).places(rows) == [first, second] * 2
    two = runs_of(plan_table(experiment, overrides=["pretrain.speed.devices=2"]))
    assert Local().places(two) == [both]
