"""The Slurm engine: jobs through submitit, and the folders for everything else.

Jobs of one kind are an array; a fine-tuning's job waits for that of its own pre-training. Before a preemption or the time limit a
job gets SIGUSR2: it writes a checkpoint and puts itself back into the queue. Slurm's accounting is not needed: the records say what
became of the runs, and `squeue` says which jobs are still to come.

Another launch may hold the lock of a run that this one wants too. A job for that run would end at once, and so would jobs for the
runs that need it. These jobs are submitted when the lock is free.
"""

from __future__ import annotations

import getpass
import importlib.util
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relpos.errors import RelposError, one_line, say
from relpos.files import read_json, write_json
from relpos.launch.bundles import Bundle, bundles
from relpos.launch.engine import Engine
from relpos.launch.guard import Guard
from relpos.launch.jobs import Standing
from relpos.launch.slurm_task import task
from relpos.process import SAFE_PATH
from relpos.ranges import Count, Natural, Threads
from relpos.runs.lock import is_locked
from relpos.runs.run import Run

PAUSE = 5.0
"""Seconds between two looks at the queue."""
PATIENCE = 90.0
"""Seconds that cancelled jobs have for their checkpoints."""
SILENCE = 900.0
"""Seconds that Slurm may leave its commands without an answer before the launch gives up."""


class Unanswered(RelposError):
    """squeue or sbatch failed, as both do now and then on a busy cluster."""


@dataclass(frozen=True)
class Slurm(Engine):
    """`engine=slurm`: jobs on a cluster whose nodes see `$RELPOS_RUNS`.

    Args:
        partition: None: the cluster's own default; so with `account` and `memory`.
        account: that the time is charged to.
        time: minutes that a job may take; runs that are not done by then go on in the next job.
        threads: CPU cores of each process.
        gpus: GPUs of each process.
        memory: of a node, such as 16GB.
        runs_per_job: fine-tunings in a job.
        array: jobs of one array that run at a time.
        signal: seconds before its end at which a job gets SIGUSR2.
        setup: shell commands before each job.
        more: any other option of sbatch.
        watch: whether the launcher stays until all is done, and stops the jobs when it is stopped; otherwise it submits and leaves.
    """

    partition: str | None = None
    account: str | None = None
    time: Count = 1440
    threads: Threads | None = None
    gpus: Natural = 0
    memory: str | None = None
    runs_per_job: Count = 20
    array: Count = 64
    signal: Count = 120
    setup: list[str] | None = None
    more: dict[str, Any] | None = None
    watch: bool = True

    def __post_init__(self) -> None:
        if self.signal >= 60 * self.time:  # a job that gets the signal as it begins would go back into the queue for ever
            raise RelposError(f"engine.signal={self.signal}: fewer seconds are expected than engine.time={self.time} minutes have")

    def start(self, standing: Standing, folder: Path) -> SlurmJobs | None:
        """Submits the runs that are in no queued job yet.

        Raises:
            RelposError: there is no Slurm here, or it refuses.
        """
        if shutil.which("sbatch") is None:
            raise RelposError("engine=slurm: there is no sbatch here")
        if importlib.util.find_spec("submitit") is None:
            raise RelposError("engine=slurm needs submitit: pip install submitit")
        jobs = SlurmJobs(self, standing, folder)
        jobs.submit(in_queue())
        if self.watch:
            return jobs
        if jobs.behind:
            what = "other launches are at work on some of the runs; for those, and what needs them, nothing was submitted"
            say(f"relpos: engine=slurm: {what}: give the same command again when they are done")
        return None

    def options(self, bundle: Bundle) -> dict[str, object]:
        """submitit's options for a bundle's job."""
        options = {
            "timeout_min": self.time,
            "nodes": bundle.nodes,
            "tasks_per_node": bundle.tasks,
            "cpus_per_task": self.threads or 1,
            "slurm_partition": self.partition,
            "slurm_account": self.account,
            "slurm_mem": self.memory,
            "slurm_gpus_per_node": self.gpus * bundle.tasks or None,
            "slurm_array_parallelism": self.array,
            "slurm_signal_delay_s": self.signal,
            "slurm_setup": self.setup or None,
            "slurm_additional_parameters": self.more or None,
            "name": "relpos",
        }
        return {key: value for key, value in options.items() if value is not None}


class SlurmJobs:
    """The jobs of this launch and, where they are still in the queue, of launches before it.

    Args:
        engine: how to submit.
        standing: of the launch.
        folder: of the launch; the jobs of all launches stand in `slurm.json` beside it.
    """

    def __init__(self, engine: Slurm, standing: Standing, folder: Path) -> None:
        self.engine, self.standing, self.folder = engine, standing, folder
        self.guard = Guard(standing)
        self.book = folder.parent / "slurm.json"
        self.jobs = _read(self.book)
        """Number of a job → identities of its runs."""
        self.submitted: list[str] = []
        """Numbers of the jobs of this launch."""
        self.behind = False
        """Whether there are runs for which a job is still to be submitted."""
        self.rounds = 0
        """Calls of `submit`."""
        self.last_look = time.monotonic()
        self.silent_since: float | None = None
        """When Slurm failed to answer for the first time in a row; None while it answers."""

    def submit(self, queue: set[str]) -> None:
        """Submits jobs for the unsettled runs that are in no queued job, except those that wait for another launch, see `_held_up`.

        Args:
            queue: numbers of the jobs in the queue.

        Raises:
            RelposError: Slurm refuses; what was submitted before stays in the queue, and in `slurm.json`.
        """
        self.behind = True  # stays so if an exception ends this method
        self.rounds += 1
        known = set(self.jobs)
        self.jobs = {number: runs for number, runs in self.jobs.items() if number in queue}
        job_of = {identity: number for number, runs in self.jobs.items() for identity in runs}
        without_job = [run for run in self.standing.open() if run.identity not in job_of]
        held_up = _held_up(without_job)
        numbers: dict[str, str] = {}
        wanted = bundles([run for run in without_job if run.identity not in held_up], self.engine.runs_per_job)
        try:
            for group in _alike(wanted):
                after = {numbers[bundle.name] for bundle in group[0].needs if bundle.name in numbers}
                after |= {job_of[run.identity] for run in _inputs(group[0]) if run.identity in job_of}
                numbers |= dict(zip([bundle.name for bundle in group], self._sbatch(group, sorted(after)), strict=True))
        finally:
            # After an error, too: what sbatch has taken must not be submitted again. Another launch may have added jobs meanwhile.
            added = {number: runs for number, runs in _read(self.book).items() if number not in known}
            write_json(self.book, added | self.jobs)
        self.behind = bool(held_up)

    def _sbatch(self, group: list[Bundle], after: list[str]) -> list[str]:
        """Submits one array. Returns the numbers of its jobs, in order."""
        import submitit

        executor = submitit.AutoExecutor(self.folder / "slurm", cluster="slurm", slurm_python=sys.executable)
        # afterany, not afterok: if a job is lost, later ones can still do a part of their runs; a worker checks which are ready
        dependency = {"slurm_dependency": f"afterany:{':'.join(after)}"} if after else {}
        setup = {"slurm_setup": [f"export {SAFE_PATH}=1", *(self.engine.setup or ())]}  # as `started` has it
        executor.update_parameters(**self.engine.options(group[0]) | setup, **dependency)
        files = []
        for bundle in group:
            files.append(self.folder / f"{bundle.name}-{self.rounds}.json")  # a job of an earlier round may still need its file
            self.standing.job.part(bundle.runs).write(files[-1])
        try:
            with executor.batch():
                submitted = [executor.submit(task, str(file), self.engine.threads) for file in files]
        except submitit.core.utils.FailedJobError as error:
            raise Unanswered(f"engine=slurm: {one_line(error)}") from error
        numbers = [job.job_id for job in submitted]
        for number in numbers:
            self.guard.begin(number)
        self.submitted += numbers
        self.jobs |= {number: [run.identity for run in bundle.runs] for number, bundle in zip(numbers, group, strict=True)}
        return numbers

    def poll(self) -> None:
        """Submits runs again whose job was lost. The deaths are counted in `execute`, run by run, not here.

        Raises:
            RelposError: jobs end without having started a run; or Slurm has not answered for a long time.
        """
        # The launcher polls several times a second, more often than a controller should be asked.
        if time.monotonic() - self.last_look < PAUSE:
            return
        self.last_look = time.monotonic()
        try:
            self._look()
            self.silent_since = None
        except Unanswered as error:  # a controller that is busy or restarting is no reason to end a launch of days
            if self.silent_since is None:
                self.silent_since = time.monotonic()
                say(f"relpos: {error}; its jobs go on, and it is asked again")
            if time.monotonic() - self.silent_since > SILENCE:
                raise

    def _look(self) -> None:
        """Looks which jobs have left the queue, and submits what is left of their runs."""
        self.jobs = _read(self.book) | self.jobs  # before the queue: what another launch submits in between is in the queue, too
        queue = in_queue()
        gone = [number for number in self.jobs if number not in queue]
        if not gone and not self.behind:
            return
        left = self.standing.open()  # read after the queue, so that the records have what the jobs did last
        for number in gone:
            identities = set(self.jobs[number])
            # A job rightly ends early where its runs are not ready or another process is at work on them.
            undone = [run for run in left if run.identity in identities and self.standing.is_ready(run) and not _is_held(run)]
            # Another launch watches its own jobs; here they would count as useful.
            if undone and number in self.submitted and self.guard.end(number):
                raise RelposError(f"engine=slurm: jobs end before they start a run: see {self.folder / 'slurm'}")
        self.submit(queue)

    def shutdown(self) -> None:
        """Cancels the jobs of this launch that are still there; they write their checkpoints and end.

        If an error ends the launcher, nothing is cancelled: the jobs are healthy, and the same command goes on with them.
        """
        if isinstance(sys.exception(), Exception):  # an error ends the launcher; KeyboardInterrupt is not an Exception
            say("relpos: engine=slurm: jobs in the queue stay there; the same command goes on with them")
            return
        deadline = time.monotonic() + PATIENCE
        if left := self._still_there():
            # Unchecked: scancel may fail because one of the jobs has just ended, which is what is wanted.
            subprocess.run(["scancel", *sorted(left)], capture_output=True, check=False)
        while left and time.monotonic() < deadline:
            time.sleep(0.5)
            left = self._still_there()
        if left:
            say(f"relpos: engine=slurm: cancelled, and still in the queue: {' '.join(sorted(left))}")

    def _still_there(self) -> set[str]:
        """Jobs of this launch in the queue; all of them if Slurm does not answer."""
        try:
            return set(self.submitted) & in_queue() if self.submitted else set()
        except Unanswered:
            return set(self.submitted)


def in_queue() -> set[str]:
    """Numbers of this user's jobs that wait or run: 12, or 12_3 in an array.

    Raises:
        Unanswered: squeue failed; has its message.
    """
    # `--array`: without it the waiting jobs of an array are one line, 12_[3-5], which no number in the book equals.
    command = ["squeue", "--noheader", "--array", "--format=%i", f"--user={getpass.getuser()}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or "").strip() or str(error)
        raise Unanswered(f"engine=slurm: squeue: {said.splitlines()[0]}") from error
    return set(done.stdout.split())


def _is_held(run: Run) -> bool:
    """Whether some process is at work on the run."""
    return run.state == "running" and is_locked(run.path)


def _held_up(without_job: list[Run]) -> set[str]:
    """The runs for which a job would end at once, because another process holds them or a run that they need, at any depth."""
    result: set[str] = set()
    for run in without_job:  # inputs first
        if any(needed.identity in result for needed in run.inputs.values()) or _is_held(run):
            result.add(run.identity)
    return result


def _alike(wanted: list[Bundle]) -> Iterable[list[Bundle]]:
    """Groups the bundles that can be one array: equally many processes, and the same jobs to wait for. Keeps the order."""
    groups: dict[object, list[Bundle]] = {}
    for bundle in wanted:
        inputs = frozenset(run.identity for run in _inputs(bundle))
        key = (bundle.nodes, bundle.tasks, tuple(needed.name for needed in bundle.needs), inputs)
        groups.setdefault(key, []).append(bundle)
    return groups.values()


def _inputs(bundle: Bundle) -> list[Run]:
    """The runs outside the bundle that its runs read."""
    inside = {run.identity for run in bundle.runs}
    needed = {other.identity: other for run in bundle.runs for other in run.inputs.values() if other.identity not in inside}
    return list(needed.values())


def _read(path: Path) -> dict[str, list[str]]:
    try:
        content: dict[str, list[str]] = read_json(path, dict[str, list[str]])
    except RelposError:
        return {}
    return content
