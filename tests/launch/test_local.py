"""Workers and their crew on this machine: whose fault a crash is, what cannot be written down, who sees which GPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relpos.errors import RelposError
from relpos.launch import local, worker
from relpos.launch.engine import run_all
from relpos.launch.jobs import Job, Standing
from relpos.launch.local import DEATHS, Local, LocalCrew
from relpos.launch.worker import barred, held, work
from relpos.process import STOPS
from relpos.ranges import shown
from relpos.runs import Run, compose, plan
from relpos.runs.lock import claim
from relpos.runs.stages import STAGES
from relpos.train.group import Broken

CRASHING = """
import os, signal
from relpos.runs.stages import STAGES

def noop(run, sleep=STAGES["noop"]):
    if run.config["label"] == "kills":
        os.kill(os.getpid(), signal.SIGKILL)
    if run.config["label"] == "exits":
        raise SystemExit(0)
    return sleep(run)

STAGES["noop"] = noop
"""


@pytest.fixture
def crashing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers in which runs labelled `kills` and `exits` do so."""
    (tmp_path / "sitecustomize.py").write_text(CRASHING, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])))


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """Ends a worker in this process that does not end by itself; its signal handlers go with it."""
    event = threading.Event()
    timer = threading.Timer(10, event.set)
    handlers = {number: signal.getsignal(number) for number in STOPS}
    timer.start()
    yield event
    timer.cancel()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def noop(label: str, seed: int = 0) -> Run:
    return plan(compose("noop", ["seconds=0", f"label={label}", f"seed={seed}"]))


def on_two_nodes(name: str = "two") -> Run:
    return Run("pretrain", name, {"name": name}, {"speed": {"devices": 1, "nodes": 2, "threads": 1}})


def test_an_error_before_there_is_a_record_is_a_failure(stop: threading.Event) -> None:
    run, other = on_two_nodes(), noop("other")
    work(Job([run, other], retries=1), stop)
    assert not stop.is_set()
    assert (run.state, len(run.record["failures"]), other.state) == ("failed", 2, "finished")
    assert run.record["error"].startswith("speed.nodes=2: start the command on every node")


def test_leaving_python_is_a_failure(stop: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STAGES, "noop", lambda run: sys.exit(0))
    run = noop("exits")
    work(Job([run]), stop)
    assert (run.state, len(run.record["failures"])) == ("failed", 1)


def test_a_run_that_cannot_be_written_is_told_at_the_end(tmp_path: Path) -> None:
    """Neither it nor what needs it is waited for; the others are done."""
    blocked, behind, other = noop("blocked"), noop("behind"), noop("other")
    behind.inputs["first"] = blocked
    blocked.path.parent.mkdir(parents=True)
    blocked.path.write_text("in its place", encoding="utf-8")
    file = tmp_path / "launch" / "job.json"
    Job([blocked, behind, other]).write(file)
    command = [sys.executable, "-m", "relpos.launch.worker", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    expected = f"relpos: these runs can be neither executed nor marked as failed: {blocked.path}"
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, expected)
    assert other.state == "finished"
    with pytest.raises(RelposError, match="workers end with status 1"):
        run_all([blocked, behind, other], tmp_path / "table", Local(workers=1))


@pytest.mark.parametrize("rank", [0, 1])
def test_after_an_error_in_a_run_of_several_processes_none_is_shared_again(
    rank: int, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Run] = []

    def broken(run: Run, **more: Any) -> None:
        tries.append(run)
        raise Broken("another process of this run has ended")

    monkeypatch.setattr(worker, "execute", broken)
    for name, value in {"RANK": str(rank), "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    run = on_two_nodes()
    with pytest.raises(RelposError, match="cannot share another one"):
        work(Job([run], retries=3), stop)
    assert len(tries) == 1
    assert len(run.record.get("failures", [])) == (rank == 0)
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    worker.interrupted(Job([run], retries=3))
    assert codes == [1]


def test_an_idle_worker_rests_while_looking_takes_long(stop: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    run = noop("held")
    pauses: list[float] = []
    walk = Standing.walk

    def slow(standing: Standing) -> Iterator[tuple[Run, str]]:
        time.sleep(0.1)
        return walk(standing)

    monkeypatch.setattr(Standing, "walk", slow)
    monkeypatch.setattr(stop, "wait", lambda pause: (pauses.append(pause), stop.set()))
    with claim(run.path):
        work(Job([run]), stop)
    assert 0.5 <= pauses[0] <= worker.LONGEST


def test_a_worker_notes_its_run_and_leaves_a_barred_one(
    tmp_path: Path, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = noop("first"), noop("second")
    notes: list[str] = []

    def noted(run: Run) -> dict[str, Any]:
        notes.append(held(tmp_path, os.getpid()).read_text(encoding="utf-8"))
        if run.identity == second.identity:
            barred(tmp_path, first.identity).unlink()
        return {}

    monkeypatch.setitem(STAGES, "noop", noted)
    barred(tmp_path, first.identity).touch()
    work(Job([first, second]), stop, tmp_path)
    assert notes == [second.identity, first.identity]
    assert not held(tmp_path, os.getpid()).exists()


@pytest.mark.usefixtures("crashing")
def test_runs_that_crash_their_workers_do_not_end_the_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "DEATHS", 2)
    bad, good = ([noop(label, seed) for seed in range(3)] for label in ("kills", "good"))
    assert run_all(bad + good, tmp_path / "table", Local(workers=2)) == bad
    assert {run.state for run in good} == {"finished"}
    assert all(run.record["error"].endswith("times with SIGKILL") for run in bad)


@pytest.mark.usefixtures("crashing")
def test_a_run_that_leaves_python_does_not_end_the_launch(tmp_path: Path) -> None:
    runs = [noop("exits"), noop("good")]
    assert run_all(runs, tmp_path / "table", Local(workers=1)) == runs[:1]


class Crew(LocalCrew):
    """Workers that end as soon as they begin."""

    ends = "false"

    def _start(self, place: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([self.ends], stdin=subprocess.PIPE)
        process.wait()
        return process


class Content(Crew):
    """Workers that think that all is done."""

    ends = "true"


def test_a_run_is_given_up_once_nobody_holds_it(tmp_path: Path) -> None:
    run = noop("kills")
    crew, standing = Crew(tmp_path, [{}]), Standing(Job([run]))
    with claim(run.path):
        run.update(state="running")
        for _ in range(DEATHS + 1):  # another worker has the run before the launcher looks
            held(tmp_path, crew.workers[0].pid).write_text(run.identity, encoding="utf-8")
            crew.tend(standing)
        assert (run.state, barred(tmp_path, run.identity).exists()) == ("running", True)
    crew.tend(standing)
    assert (run.state, barred(tmp_path, run.identity).exists()) == ("failed", False)
    assert run.record["error"] == f"its worker ended {DEATHS + 1} times with status 1"


def test_deaths_over_no_run_are_forgotten_when_a_run_has_settled(tmp_path: Path) -> None:
    runs = [noop("good", seed) for seed in range(3)]
    crew, standing = Crew(tmp_path, [{}]), Standing(Job(runs))
    for run in runs:
        run.path.mkdir(parents=True)
        run.update(state="finished")
        standing.open()
        for _ in range(DEATHS - 1):
            crew.tend(standing)
    with pytest.raises(RelposError, match="workers end with status 1"):
        crew.tend(standing)


def test_workers_that_left_too_early_are_started_again(tmp_path: Path) -> None:
    run = noop("deleted")
    crew, standing = Content(tmp_path, [{}, {}]), Standing(Job([run]))
    before = list(crew.workers)
    crew.tend(standing)
    assert [new is old for new, old in zip(crew.workers, before, strict=True)] == [False, True]
    crew.tend(standing)
    with pytest.raises(RelposError, match="workers end with status 0"):
        crew.tend(standing)
    run.path.mkdir(parents=True)
    run.update(state="finished")
    crew.tend(standing)  # all is done indeed


def test_launchers_of_one_number_have_folders_of_their_own(tmp_path: Path) -> None:
    """Containers number their processes each for itself."""
    folders: list[Path] = []

    class Noted(Local):
        def start(self, job: Job, pending: list[Run], folder: Path) -> LocalCrew:
            folders.append(folder)
            raise RelposError("no")

    for _ in range(2):
        with pytest.raises(RelposError, match="no"):
            run_all([noop("never")], tmp_path / "table", Noted())
    assert len(set(folders)) == 2
    assert all(folder.name.startswith("launch-") and not folder.exists() for folder in folders)


@pytest.mark.parametrize(("key", "value"), [
    ("workers", -1), ("workers", 0), ("workers", 2.5), ("workers", "abc"), ("workers", True), ("threads", "two"), ("threads", -2),
    ("runs_per_device", 0), ("runs_per_device", None), ("devices", 0), ("devices", [-1]), ("devices", ["a"]),
])  # fmt: skip
def test_a_wrong_argument_is_named(key: str, value: Any) -> None:
    with pytest.raises(RelposError) as error:
        compose("reproduce", [f"engine.{key}={shown(value)}"])
    assert str(error.value).startswith(f"engine.{key}={shown(value)}: ")
    assert "expected" in str(error.value)


def environments(monkeypatch: pytest.MonkeyPatch, folder: Path, engine: Local, pending: list[Run]) -> list[dict[str, str]]:
    monkeypatch.setattr(LocalCrew, "_start", lambda crew, place: None)
    folder.mkdir(exist_ok=True)
    return engine.start(Job(pending), pending, folder).environments


def test_which_gpus_workers_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [on_two_nodes(name) for name in ("a", "b")]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    seen = [one["CUDA_VISIBLE_DEVICES"] for one in environments(monkeypatch, tmp_path / "launch", Local(devices=[0, 1]), runs)]
    assert seen == ["4", "5"]
    hidden = environments(monkeypatch, tmp_path / "launch", Local(workers=1, devices=[]), runs)
    assert [one["CUDA_VISIBLE_DEVICES"] for one in hidden] == [""]
    with pytest.raises(RelposError, match=r"engine.devices=\[2\]: CUDA_VISIBLE_DEVICES=4,5 leaves 2 GPUs"):
        Local(devices=[2]).places(runs)


def test_runs_without_a_speed_say_nothing_about_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    run = Run("pretrain", "cpu", {}, {"speed": {"devices": 1, "nodes": 1, "accelerator": "cpu"}})
    assert Local(workers=2).places([noop("data"), run]) == [None, None]
    assert Local(workers=1).places([noop("data")]) == [None]
