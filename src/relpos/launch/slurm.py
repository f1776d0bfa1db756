"""The Slurm engine: jobs through submitit, and the folders for everything else.

Jobs of one kind are an array; a fine-tuning's job waits for that of its own pre-training. Before a preemption or the time limit a
job gets SIGUSR2: it writes a checkpoint and puts itself back into the queue. Accounting is not needed: what became of a run stands
in its record, and `squeue` says which jobs are still to come.

Another launch may hold a run that this one wants too. A job for it would end at once, and so would jobs for what needs it: they are
submitted when nobody holds it any more.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relpos.errors import RelposError
from relpos.files import write_json
from relpos.launch.bundles import Lot, lots
from relpos.launch.jobs import Job, Standing
from relpos.launch.local import give_up
from relpos.launch.slurm_task import task
from relpos.ranges import Count, Natural
from relpos.runs.lock import is_held
from relpos.runs.run import Run

PAUSE = 5.0
"""Seconds between two looks at the queue."""
PATIENCE = 90.0
"""Seconds that cancelled jobs have for their checkpoints."""
LOST = 3
"""So often a job may end over a run without having got it further."""
SILENCE = 900.0
"""Seconds that Slurm may leave its commands without an answer before the launch gives up."""


class Unanswered(RelposError):
    """squeue or sbatch failed, as both do now and then on a busy cluster."""


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
    time: Count = 1440
    threads: Count | None = None
    gpus: Natural = 0
    memory: str | None = None
    runs_per_job: Count = 20
    array: Count = 64
    signal: Count = 120
    setup: list[str] | None = None
    more: dict[str, Any] | None = None
    watch: bool = True

    def __post_init__(self) -> None:
        if self.signal >= 60 * self.time:  # told of its end at its beginning, a job would go back into the queue for ever
            raise RelposError(f"engine.signal={self.signal}: fewer seconds are expected than engine.time={self.time} minutes have")

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
        crew.submit(pending, in_queue())
        if crew.behind and not self.watch:
            what = "other launches are at work on some of the runs; for those, and what needs them, nothing was submitted"
            print(f"relpos: engine=slurm: {what}: give the same command again when they are done", file=sys.stderr)
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
        self.behind = False
        """Whether there are runs for which a job is still to be submitted."""
        self.rounds = 0
        self.losses: Counter[str] = Counter()
        self.reached: dict[str, int] = {}
        self.looked = time.monotonic()
        self.silent: float | None = None
        """Since when Slurm has not answered."""

    def submit(self, pending: list[Run], queue: set[str]) -> None:
        """Submits jobs for the runs that no job in the queue stands for, but for those that others are at work on.

        Args:
            pending: what is not settled, inputs before what needs them.
            queue: the jobs that there are.

        Raises:
            RelposError: Slurm refuses; what was submitted before stays, and stands in the book.
        """
        self.behind = True  # until the end is reached
        self.rounds += 1
        self.jobs = {number: runs for number, runs in self.jobs.items() if number in queue}
        covered = {identity: number for number, runs in self.jobs.items() for identity in runs}
        uncovered = [run for run in pending if run.identity not in covered]
        later = _later(uncovered)
        numbers: dict[str, str] = {}
        wanted = lots([run for run in uncovered if run.identity not in later], self.engine.runs_per_job)
        try:
            for group in _alike(wanted):
                after = {numbers[lot.name] for lot in group[0].needs if lot.name in numbers}
                after |= {covered[run.identity] for run in _inputs(group[0]) if run.identity in covered}
                numbers |= dict(zip([lot.name for lot in group], self._sbatch(group, sorted(after)), strict=True))
        finally:
            write_json(self.book, self.jobs)
        self.behind = bool(later)

    def _sbatch(self, group: list[Lot], after: list[str]) -> list[str]:
        import submitit

        executor = submitit.AutoExecutor(self.folder / "slurm", cluster="slurm", slurm_python=sys.executable)
        dependency = {"slurm_dependency": f"afterany:{':'.join(after)}"} if after else {}
        executor.update_parameters(**self.engine.options(group[0]), **dependency)
        files = []
        for lot in group:
            files.append(self.folder / f"{lot.name}-{self.rounds}.json")  # a job of an earlier round may yet read its own
            self.job.part(lot.runs).write(files[-1])
        try:
            with executor.batch():
                submitted = [executor.submit(task, str(file), self.engine.threads or 1) for file in files]
        except submitit.core.utils.FailedJobError as error:
            raise Unanswered(f"engine=slurm: {str(error).strip().splitlines()[-1]}") from error
        numbers = [job.job_id for job in submitted]
        self.own += numbers
        self.jobs |= {number: [run.identity for run in lot.runs] for number, lot in zip(numbers, group, strict=True)}
        return numbers

    def tend(self, standing: Standing) -> None:
        """Submits again what was lost with its job; a run with which jobs are lost again and again has failed.

        Raises:
            RelposError: jobs end before they do anything; or Slurm has not answered for a long time.
        """
        if time.monotonic() - self.looked < PAUSE:
            return
        self.looked = time.monotonic()
        try:
            self._look(standing)
            self.silent = None
        except Unanswered as error:
            if self.silent is None:
                self.silent = time.monotonic()
                print(f"relpos: {error}; its jobs go on, and it is asked again", file=sys.stderr)
            if time.monotonic() - self.silent > SILENCE:
                raise

    def _look(self, standing: Standing) -> None:
        queue = in_queue()
        gone = [number for number in self.jobs if number not in queue]
        if gone or self.behind:
            left = standing.open()  # read after the queue: what jobs did last is in it
            for number in gone:
                own = set(self.jobs[number])
                self._count([run for run in left if run.identity in own and standing.is_ready(run) and not _is_held(run)])
            self.submit(standing.open(), queue)

    def _count(self, left: list[Run]) -> None:
        """How often a job was lost over a run since that last got further: the one under way, or else the first.

        Args:
            left: what the lost job could have done and did not: runs that are ready, and that nobody else holds.
        """
        run = next((run for run in left if run.state == "running"), left[0] if left else None)
        if run is None:
            return
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
        """Cancels what this launch has submitted and is still there; jobs write their checkpoints and end.

        After an error nothing is cancelled: the jobs are healthy, and the same command goes on with them.
        """
        if isinstance(sys.exception(), Exception):  # the launcher is on its way out because of it; Ctrl-C is none
            print("relpos: engine=slurm: jobs in the queue stay there; the same command goes on with them", file=sys.stderr)
            return
        deadline = time.monotonic() + PATIENCE
        if left := self._still_there():
            subprocess.run(["scancel", *sorted(left)], capture_output=True, check=False)
        while left and time.monotonic() < deadline:
            time.sleep(0.5)
            left = self._still_there()
        if left:
            print(f"relpos: engine=slurm: cancelled, and still in the queue: {' '.join(sorted(left))}", file=sys.stderr)

    def _still_there(self) -> set[str]:
        """Own jobs in the queue; all of them where Slurm does not say."""
        try:
            return set(self.own) & in_queue() if self.own else set()
        except Unanswered:
            return set(self.own)


def in_queue() -> set[str]:
    """Numbers of this user's jobs that wait or run: 12, or 12_3 in an array.

    Raises:
        Unanswered: it says why.
    """
    command = ["squeue", "--noheader", "--array", "--format=%i", f"--user={getpass.getuser()}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or "").strip() or str(error)
        raise Unanswered(f"engine=slurm: squeue: {said.splitlines()[0]}") from error
    return set(done.stdout.split())


def _is_held(run: Run) -> bool:
    return run.state == "running" and is_held(run.path)


def _later(uncovered: list[Run]) -> set[str]:
    """Of runs without a job those for which there is nothing to do yet: others hold them, or runs that they need, at any depth."""
    found: set[str] = set()
    for run in uncovered:  # inputs first
        if any(other.identity in found for other in run.inputs.values()) or _is_held(run):
            found.add(run.identity)
    return found


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
