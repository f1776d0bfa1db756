"""Launchers with runs that only sleep: retried, shared by two launches, killed at random; nothing is done twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from relpos.errors import RelposError
from relpos.runs import Run, compose, plan
from relpos.runs.claim import claim
from relpos.runs.stages import STAGES
from relpos.tables import local, worker
from relpos.tables.engine import run_all
from relpos.tables.experiment import load
from relpos.tables.jobs import Job, Standing
from relpos.tables.local import DEATHS, Local, LocalCrew
from relpos.tables.plan import plan_table, runs_of
from relpos.tables.status import look, seconds_left
from relpos.tables.worker import barred, held, work
from relpos.train.group import Broken
from relpos.train.signals import STOPS

RELPOS = str(Path(sys.executable).with_name("relpos"))


def experiment(folder: Path, **changes: Any) -> Path:
    content = {"question": "?", "rows": {"noop": []}, "stages": {"noop": ["seconds=0"]}, "tasks": [], "seeds": 20}
    path = folder / "sleep.yaml"
    path.write_text(yaml.safe_dump(content | changes, sort_keys=False), encoding="utf-8")
    return path


def start(table: Path, *words: str, command: str = "reproduce") -> subprocess.Popen[str]:
    return subprocess.Popen([RELPOS, command, f"table={table}", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


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
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text(encoding="utf-8").split()
        if children:
            os.kill(int(children[0]), signal.SIGKILL)
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


def test_stopping_is_clean(tmp_path: Path, root: Path) -> None:
    table = experiment(tmp_path, stages={"noop": ["seconds=60"]}, seeds=2)
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


def test_a_large_plan_finds_what_is_missing(tmp_path: Path, root: Path) -> None:
    runs = runs_of(plan_table(load(str(experiment(tmp_path, seeds=3000)))))
    for run in runs[:-1]:
        run.path.mkdir(parents=True)
        (run.path / "record.json").write_text(json.dumps({"state": "finished"}), encoding="utf-8")
    began = time.process_time()
    assert run_all(runs, tmp_path / "table", Local(workers=1)) == []
    assert time.process_time() - began < 3
    assert runs[-1].state == "finished"


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


def test_a_run_whose_process_is_gone_is_not_running(root: Path) -> None:
    run = plan(compose("noop"))
    run.path.mkdir(parents=True)
    run.update(state="running", starts=[{"pid": 1, "host": "elsewhere"}])
    assert look([run])[0].state == "interrupted"
    (run.path / "claim.json").write_text(json.dumps({"pid": os.getpid(), "host": os.uname().nodename}), encoding="utf-8")
    assert look([run])[0].state == "running"


def test_time_left_is_read_from_the_newest_line(root: Path) -> None:
    run = plan(compose("pretrain", ["steps=100"]))
    run.path.mkdir(parents=True)
    run.update(state="running")
    (run.path / "claim.json").write_text(json.dumps({"pid": os.getpid(), "host": os.uname().nodename}), encoding="utf-8")
    (run.path / "metrics.jsonl").write_text('{"step": 60, "loss": 2.0, "steps_per_second": 4.0}\n', encoding="utf-8")
    assert seconds_left(look([run])[0]) == 10.0


def test_a_table_is_not_started_by_torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RelposError, match="a table is started once"):
        run_all([plan(compose("noop"))], tmp_path / "table", Local(workers=1))


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
    command = [sys.executable, "-m", "relpos.tables.worker", str(file)]
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
    ("runs_per_device", 0), ("runs_per_device", None), ("devices", 0), ("devices", [-1]), ("devices", ["a"]), ("watch", "no"),
])  # fmt: skip
def test_a_wrong_argument_is_named(key: str, value: Any) -> None:
    with pytest.raises(RelposError) as error:
        Local(**{key: value})
    assert str(error.value).startswith(f"engine.{key}={value}: ")
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
