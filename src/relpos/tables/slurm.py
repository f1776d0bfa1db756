"""The Slurm engine: jobs through submitit, and the folders for everything else.

Jobs of one kind are an array; a fine-tuning's job waits for that of its own pre-training. Before a preemption or the time limit a
job gets SIGUSR2: it writes a checkpoint and puts itself back into the queue. Accounting is not needed: what became of a run stands
in its record, and `squeue` says which jobs are still to come.
"""

from __future__ import annotations

import getpass
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relpos.errors import RelposError
from relpos.files import write_json
from relpos.runs.run import Run
from relpos.tables.jobs import Job, Standing
from relpos.tables.local import give_up
from relpos.tables.lots import Lot, lots
from relpos.tables.slurm_task import task

PAUSE = 5.0
"""Seconds between two looks at the queue."""
PATIENCE = 90.0
"""Seconds that cancelled jobs have for their checkpoints."""
LOST = 3
"""So often a job may end without having settled any of its runs."""


@dataclass(frozen=True)
class Slurm:
    """`engine=slurm`: jobs on a cluster whose nodes see `$RELPOS_RUNS`.

    Args:
        partition: None: the cluster's own default; so with `account` and `memory`.
        account: who pays.
        time: minutes that a job may take; what is not done then goes on in the next.
        threads: CPU cores of each process.
        gpus: GPUs of each process.
        memory: of a node, such as 16GB.
        runs_per_job: fine-tunings in a job.
        array: jobs of one array that run at a time.
        signal: seconds before the end at which a job is told of it.
        setup: shell commands before each job.
        more: any other option of sbatch.
        watch: whether the launcher stays until all is done, and stops the jobs when it is stopped; otherwise it submits and leaves.
    """

    partition: str | None = None
    account: str | None = None
    time: int = 1440
    threads: int | None = None
    gpus: int = 0
    memory: str | None = None
    runs_per_job: int = 20
    array: int = 64
    signal: int = 120
    setup: list[str] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    watch: bool = True

    def start(self, job: Job, pending: list[Run], folder: Path) -> SlurmCrew:
        """Submits what no job in the queue stands for yet.

        Raises:
            RelposError: there is no Slurm here, or it refuses.
        """
        if shutil.which("sbatch") is None:
            raise RelposError("engine=slurm: there is no sbatch here")
        if importlib.util.find_spec("submitit") is None:
            raise RelposError("engine=slurm needs submitit: pip install 'relpos[slurm]'")
        crew = SlurmCrew(self, job, folder)
        crew.submit(pending)
        return crew

    def options(self, lot: Lot) -> dict[str, Any]:
        """What submitit is told of a lot's job."""
        told = {
            "timeout_min": self.time,
            "nodes": lot.nodes,
            "tasks_per_node": lot.tasks,
            "cpus_per_task": self.threads or 1,
            "slurm_partition": self.partition,
            "slurm_account": self.account,
            "slurm_mem": self.memory,
            "slurm_gpus_per_node": self.gpus * lot.tasks or None,
            "slurm_array_parallelism": self.array,
            "slurm_signal_delay_s": self.signal,
            "slurm_setup": self.setup or None,
            "slurm_additional_parameters": self.more or None,
            "name": "relpos",
        }
        return {key: value for key, value in told.items() if value is not None}


class SlurmCrew:
    """The jobs of this launch and, where they are still in the queue, of launches before it.

    Args:
        engine: how to submit.
        job: all runs.
        folder: of this launch; the jobs of all launches stand in `slurm.json` beside it.
    """

    def __init__(self, engine: Slurm, job: Job, folder: Path) -> None:
        self.engine, self.job, self.folder = engine, job, folder
        self.book = folder.parent / "slurm.json"
        self.jobs: dict[str, list[str]] = _read(self.book)
        self.own: list[str] = []
        self.losses: Counter[str] = Counter()
        self.reached: dict[str, int] = {}
        self.looked = time.monotonic()

    def submit(self, pending: list[Run]) -> None:
        """Submits jobs for the runs that no job in the queue stands for."""
        queue = in_queue()
        self.jobs = {number: runs for number, runs in self.jobs.items() if number in queue}
        covered = {identity: number for number, runs in self.jobs.items() for identity in runs}
        numbers: dict[str, str] = {}
        wanted = lots([run for run in pending if run.identity not in covered], self.engine.runs_per_job)
        for group in _alike(wanted):
            after = {numbers[lot.name] for lot in group[0].needs if lot.name in numbers}
            after |= {covered[run.identity] for run in _inputs(group[0]) if run.identity in covered}
            numbers |= dict(zip([lot.name for lot in group], self._sbatch(group, sorted(after)), strict=True))
        write_json(self.book, self.jobs)

    def _sbatch(self, group: list[Lot], after: list[str]) -> list[str]:
        import submitit

        executor = submitit.AutoExecutor(self.folder / "slurm", cluster="slurm", slurm_python=sys.executable)
        dependency = {"slurm_dependency": f"afterany:{':'.join(after)}"} if after else {}
        executor.update_parameters(**self.engine.options(group[0]), **dependency)
        files = []
        for lot in group:
            files.append(self.folder / f"{lot.name}.json")
            self.job.part(lot.runs).write(files[-1])
        try:
            with executor.batch():
                submitted = [executor.submit(task, str(file), self.engine.threads or 1) for file in files]
        except submitit.core.utils.FailedJobError as error:
            raise RelposError(f"engine=slurm: {str(error).strip().splitlines()[-1]}") from error
        numbers = [job.job_id for job in submitted]
        self.own += numbers
        self.jobs |= {number: [run.identity for run in lot.runs] for number, lot in zip(numbers, group, strict=True)}
        return numbers

    def tend(self, standing: Standing) -> None:
        """Submits again what was lost with its job; a run with which jobs are lost again and again has failed.

        Raises:
            RelposError: jobs end before they do anything.
        """
        if time.monotonic() - self.looked < PAUSE:
            return
        self.looked = time.monotonic()
        queue = in_queue()
        gone = [number for number in self.jobs if number not in queue]
        if gone:
            left = standing.open()  # read after the queue: what jobs did last is in it
            lost = {identity for number in gone for identity in self.jobs[number]}
            for run in left:
                if run.identity in lost:
                    self._count(run)
            self.submit(standing.open())

    def _count(self, run: Run) -> None:
        """How often a job was lost since the run last got further."""
        step = (run.record.get("starts") or [{"from_step": -1}])[-1]["from_step"]
        if step > self.reached.get(run.identity, -1):
            self.reached[run.identity] = step
            self.losses[run.identity] = 0
        self.losses[run.identity] += 1
        if self.losses[run.identity] > LOST:
            if run.state == "missing":
                raise RelposError(f"engine=slurm: jobs end before they do anything: see {self.folder / 'slurm'}")
            self.losses[run.identity] = 0
            give_up(run, f"its job ended {LOST + 1} times before its time: see {self.folder / 'slurm'}")

    def dismiss(self) -> None:
        """Cancels what this launch has submitted and is still there; jobs write their checkpoints and end."""
        deadline = time.monotonic() + PATIENCE
        if set(self.own) & in_queue():
            subprocess.run(["scancel", *self.own], capture_output=True, check=False)
        while set(self.own) & in_queue() and time.monotonic() < deadline:
            time.sleep(0.5)


def in_queue() -> set[str]:
    """Numbers of this user's jobs that wait or run: 12, or 12_3 in an array.

    Raises:
        RelposError: Slurm does not answer.
    """
    command = ["squeue", "--noheader", "--array", "--format=%i", f"--user={getpass.getuser()}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise RelposError(f"engine=slurm: squeue: {str(said).strip().splitlines()[0]}") from error
    return set(done.stdout.split())


def _alike(wanted: list[Lot]) -> Iterable[list[Lot]]:
    """Lots that can be one array: of one size, behind the same others, in order."""
    groups: dict[Any, list[Lot]] = {}
    for lot in wanted:
        inputs = frozenset(run.identity for run in _inputs(lot))
        groups.setdefault((lot.nodes, lot.tasks, tuple(other.name for other in lot.needs), inputs), []).append(lot)
    return groups.values()


def _inputs(lot: Lot) -> list[Run]:
    own = {run.identity for run in lot.runs}
    found = {other.identity: other for run in lot.runs for other in run.inputs.values() if other.identity not in own}
    return list(found.values())


def _read(path: Path) -> dict[str, list[str]]:
    try:
        content: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content
