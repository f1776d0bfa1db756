"""What the Slurm engine does when jobs disappear, without a cluster: the queue and sbatch are played."""

from __future__ import annotations

from pathlib import Path

import pytest

from relpos.errors import RelposError
from relpos.runs import Run, compose, plan
from relpos.tables import slurm
from relpos.tables.jobs import Job, Standing
from relpos.tables.lots import Lot
from relpos.tables.slurm import LOST, Slurm, SlurmCrew


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


@pytest.fixture
def crew(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    crew = Played(Slurm(), Job([run], retries=0), tmp_path / "table" / "launch")
    crew.queue = set()
    monkeypatch.setattr(slurm, "in_queue", lambda: set(crew.queue))
    monkeypatch.setattr(slurm, "PAUSE", 0.0)
    crew.submit([run])
    return crew


def lose(crew: Played, standing: Standing) -> None:
    crew.queue.clear()
    crew.tend(standing)


def test_what_is_in_the_queue_is_not_submitted_again(run: Run, crew: Played, tmp_path: Path) -> None:
    crew.tend(Standing(crew.job))
    crew.submit([run])
    assert crew.own == ["0"]
    other = Played(Slurm(), crew.job, tmp_path / "table" / "another launch")
    other.queue = crew.queue
    other.submit([run])
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
