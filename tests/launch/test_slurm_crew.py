"""What the Slurm engine does when jobs disappear, without a cluster: the queue and sbatch are played."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from relpos.errors import RelposError
from relpos.launch import slurm
from relpos.launch.bundles import Lot
from relpos.launch.jobs import Job, Standing
from relpos.launch.slurm import LOST, SILENCE, Slurm, SlurmCrew, Unanswered
from relpos.runs import Run, compose, plan
from relpos.runs.lock import claim
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table, runs_of
from tables.small_data import write_experiment


class Played(SlurmCrew):
    """Jobs are numbered and go into a list instead of a cluster."""

    queue: set[str]

    def _sbatch(self, group: list[Lot], after: list[str]) -> list[str]:
        numbers = [str(len(self.own) + number) for number in range(len(group))]
        self.own += numbers
        self.jobs |= {number: [run.identity for run in lot.runs] for number, lot in zip(numbers, group, strict=True)}
        self.queue |= set(numbers)
        return numbers


@pytest.fixture
def run() -> Run:
    found = plan(compose("noop"))
    found.path.mkdir(parents=True)
    return found


def played(runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launch: str = "launch") -> Played:
    crew = Played(Slurm(), Job(runs, retries=0), tmp_path / "table" / launch)
    crew.queue = set()
    monkeypatch.setattr(slurm, "in_queue", lambda: set(crew.queue))
    monkeypatch.setattr(slurm, "PAUSE", 0.0)
    return crew


@pytest.fixture
def crew(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    crew = played([run], tmp_path, monkeypatch)
    crew.submit([run], set())
    return crew


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Two pre-trainings with two fine-tunings each; what all need is there."""
    monkeypatch.setenv("RELPOS_DATA", str(tmp_path / "nothing"))
    runs = runs_of(plan_table(load(str(write_experiment(tmp_path)))))
    for run in runs:
        if run.stage not in ("pretrain", "finetune"):
            run.update(state="finished")
    return runs


def pretrainings(runs: list[Run]) -> list[Run]:
    return [run for run in runs if run.stage == "pretrain"]


def tunings(runs: list[Run], pretraining: Run) -> list[Run]:
    return [run for run in runs if run.inputs.get("start") is pretraining]


def names(crew: Played) -> set[str]:
    """What has a job."""
    return {identity for number in crew.queue for identity in crew.jobs[number]}


def identities(*runs: Run) -> set[str]:
    return {run.identity for run in runs}


def lose(crew: Played, standing: Standing) -> None:
    crew.queue.clear()
    crew.tend(standing)


def test_what_is_in_the_queue_is_not_submitted_again(run: Run, crew: Played, tmp_path: Path) -> None:
    crew.tend(Standing(crew.job))
    crew.submit([run], crew.queue)
    assert crew.own == ["0"]
    other = Played(Slurm(), crew.job, tmp_path / "table" / "another launch")
    other.queue = crew.queue
    other.submit([run], crew.queue)
    assert other.own == []


def test_lost_jobs_are_submitted_again_until_it_is_hopeless(run: Run, crew: Played) -> None:
    standing = Standing(crew.job)
    for _ in range(LOST):
        lose(crew, standing)
    assert len(crew.own) == 1 + LOST
    with pytest.raises(RelposError, match="jobs end before they do anything"):
        lose(crew, standing)


def test_a_run_that_gets_further_is_no_loss(run: Run, crew: Played) -> None:
    standing = Standing(crew.job)
    run.update(state="running")
    for step in range(0, 100, 10):
        run.started(from_step=step)
        lose(crew, standing)
    assert len(crew.own) == 11
    assert run.state == "running"


def test_a_run_that_loses_its_job_again_and_again_has_failed(run: Run, crew: Played) -> None:
    standing = Standing(crew.job)
    run.update(state="running")
    run.started(from_step=7)
    for _ in range(LOST + 1):
        assert run.state == "running"
        lose(crew, standing)
    assert run.state == "failed"
    assert standing.open() == []
    assert len(crew.own) == 1 + LOST


def test_one_run_that_kills_its_jobs_does_not_end_the_launch(
    table: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those behind it in the job were never begun, and that is not their fault."""
    pretraining = pretrainings(table)[0]
    pretraining.update(state="finished")
    first, second = tunings(table, pretraining)
    crew, standing = played([first, second], tmp_path, monkeypatch), Standing(Job([first, second]))
    crew.submit([first, second], set())
    first.update(state="running")
    for _ in range(LOST + 1):
        lose(crew, standing)
    assert (first.state, second.state) == ("failed", "missing")
    assert names(crew) == identities(second)


def test_what_others_hold_waits_until_they_are_done(table: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = pretrainings(table)
    crew, standing = played(table, tmp_path, monkeypatch), Standing(Job(table))
    theirs.update(state="running")
    with claim(theirs.path):
        crew.submit(standing.open(), set())
        assert names(crew) == identities(ours, *tunings(table, ours))
        for _ in range(LOST + 2):
            crew.tend(standing)
        assert names(crew) == identities(ours, *tunings(table, ours))
    theirs.update(state="finished")
    crew.tend(standing)
    assert names(crew) == identities(ours, *tunings(table, ours), *tunings(table, theirs))


def test_what_another_launch_leaves_undone_is_submitted(table: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, _ = pretrainings(table)
    crew, standing = played(table, tmp_path, monkeypatch), Standing(Job(table))
    theirs.update(state="running")
    holder = theirs.path / "claim.json"
    with claim(theirs.path):
        crew.submit(standing.open(), set())
        before = holder.read_text(encoding="utf-8")
    crew.tend(standing)
    assert identities(theirs, *tunings(table, theirs)) <= names(crew)
    assert holder.read_text(encoding="utf-8") == before


def test_jobs_that_others_leave_nothing_to_do_are_no_loss(
    table: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both launches submit a pre-training; the other one's job takes it, and all of ours end at once."""
    theirs, _ = pretrainings(table)
    wanted = [run for run in table if run is theirs or run in tunings(table, theirs)]
    crew, standing = played(wanted, tmp_path, monkeypatch), Standing(Job(wanted))
    for _ in range(LOST + 2):
        crew.submit(standing.open(), crew.queue)
        assert names(crew) == identities(*wanted)
        theirs.update(state="running")
        with claim(theirs.path):
            lose(crew, standing)
            assert names(crew) == set()
        theirs.update(state="interrupted")
    theirs.update(state="finished")
    crew.tend(standing)
    assert names(crew) == identities(*tunings(table, theirs))


def test_a_launch_that_leaves_says_what_it_did_not_submit(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(slurm, "in_queue", set)
    monkeypatch.setattr(slurm.shutil, "which", lambda name: name)
    monkeypatch.setattr(slurm.importlib.util, "find_spec", lambda name: name)
    run.update(state="running")
    with claim(run.path):
        crew = Slurm(watch=False).start(Job([run]), [run], tmp_path / "table" / "launch")
    assert crew.own == []
    assert "give the same command again when they are done" in capsys.readouterr().err


def refuse() -> set[str]:
    raise Unanswered("engine=slurm: squeue: Socket timed out on send/recv operation")


def test_a_queue_without_an_answer_is_asked_again(
    run: Run, crew: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    standing = Standing(crew.job)
    now = [crew.looked]
    monkeypatch.setattr(slurm, "time", SimpleNamespace(monotonic=lambda: now[0]))
    answer = slurm.in_queue
    for _ in range(2):
        capsys.readouterr()
        monkeypatch.setattr(slurm, "in_queue", refuse)
        for _ in range(9):
            now[0] += SILENCE / 9
            crew.tend(standing)
        said = capsys.readouterr().err
        assert said.count("Socket timed out") == len(said.splitlines()) == 1
        monkeypatch.setattr(slurm, "in_queue", answer)
        crew.tend(standing)  # an answer; then the patience begins anew
    monkeypatch.setattr(slurm, "in_queue", refuse)
    crew.tend(standing)
    now[0] += SILENCE + 1
    with pytest.raises(RelposError, match="Socket timed out"):
        crew.tend(standing)


def test_what_sbatch_refuses_is_submitted_later(run: Run, crew: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    standing = Standing(crew.job)
    with monkeypatch.context() as patch:
        patch.setattr(crew, "_sbatch", lambda group, after: refuse())
        lose(crew, standing)
        crew.tend(standing)
    assert names(crew) == set()
    crew.tend(standing)
    assert names(crew) == identities(run)


def test_squeue_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: list[str], **more: Any) -> None:
        raise subprocess.CalledProcessError(1, command, stderr="\n")

    monkeypatch.setattr(slurm.subprocess, "run", fail)
    with pytest.raises(Unanswered, match="squeue: Command .* exit status 1"):
        slurm.in_queue()


def end(crew: Played, error: BaseException | None, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Ends a launch as the engine does; returns the commands that it gives."""
    told: list[list[str]] = []
    monkeypatch.setattr(slurm, "PATIENCE", 0.0)
    monkeypatch.setattr(slurm.subprocess, "run", lambda command, **more: told.append(command))
    with suppress(RelposError, KeyboardInterrupt):
        try:
            if error:
                raise error
        finally:
            crew.dismiss()
    return told


@pytest.mark.parametrize("error", [None, KeyboardInterrupt()])
@pytest.mark.parametrize("answers", [True, False])
def test_jobs_are_cancelled_at_the_end(
    error: BaseException | None, answers: bool, crew: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not answers:
        monkeypatch.setattr(slurm, "in_queue", refuse)
    assert end(crew, error, monkeypatch) == [["scancel", "0"]]


def test_jobs_outlive_a_launcher_with_an_error(
    crew: Played, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end(crew, RelposError("the disk is full"), monkeypatch) == []
    assert "the same command goes on with them" in capsys.readouterr().err


def test_a_job_keeps_its_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may wait in the queue while others of its kind are submitted again."""
    files: list[str] = []

    class Executor:
        def __init__(self, folder: Path, **more: Any) -> None: ...

        def update_parameters(self, **more: Any) -> None: ...

        def batch(self) -> nullcontext[None]:
            return nullcontext()

        def submit(self, task: Any, file: str, threads: int) -> SimpleNamespace:
            files.append(file)
            return SimpleNamespace(job_id=str(len(files)))

    submitit = ModuleType("submitit")
    submitit.__dict__.update(AutoExecutor=Executor, core=SimpleNamespace(utils=SimpleNamespace(FailedJobError=OSError)))
    monkeypatch.setitem(sys.modules, "submitit", submitit)
    other = plan(compose("noop", ["seed=1"]))
    crew = SlurmCrew(Slurm(), Job([run, other]), tmp_path / "table" / "launch")
    crew.submit([run], set())
    crew.submit([other], {"1"})
    assert [json.loads(Path(file).read_text(encoding="utf-8"))["own"] for file in files] == [[run.identity], [other.identity]]
