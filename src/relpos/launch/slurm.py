"""The Slurm engine: arrays of the worker that `engine=local` uses, on any number of nodes that see the folders.

A run that is ready and that nobody is at work on gets a task of an array. The task executes it and then, as any worker, whatever
else is ready; it ends when nothing is. So no node waits, and what a finished run makes ready gets tasks of its own. A run of
several processes takes a task for itself, because its processes must not choose different runs.

`squeue` says which tasks are still there, and the records say what became of the runs: Slurm's accounting is not needed.
"""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relpos.errors import RelposError, say
from relpos.files import write_json, write_text
from relpos.launch.engine import BOOK, Engine, Guard, tasks_of
from relpos.launch.jobs import Standing
from relpos.process import SAFE_PATH, thread_variables
from relpos.ranges import Count, Natural, Threads
from relpos.runs.distributed import ALONE, shape
from relpos.runs.run import Run

PAUSE = 5.0
"""Seconds between two looks at the queue."""
PATIENCE = 90.0
"""Seconds that cancelled tasks have for their checkpoints."""
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
        time: minutes that a task may take; then it goes back into the queue, and its run goes on from a checkpoint.
        threads: CPU cores of each process.
        gpus: GPUs of each process.
        memory: of a node, such as 16GB.
        array: the most tasks of a table in the queue.
        signal: seconds before its end at which a task gets SIGUSR2.
        setup: shell commands before each task.
        more: any other option of sbatch.
    """

    partition: str | None = None
    account: str | None = None
    time: Count = 1440
    threads: Threads | None = None
    gpus: Natural = 0
    memory: str | None = None
    array: Count = 64
    signal: Count = 120
    setup: list[str] | None = None
    more: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.signal >= 60 * self.time:  # a task that gets the signal as it begins would go back into the queue for ever
            raise RelposError(f"engine.signal={self.signal}: fewer seconds are expected than engine.time={self.time} minutes have")

    def start(self, standing: Standing, folder: Path) -> SlurmTasks:
        """Submits tasks for the runs that are ready.

        Raises:
            RelposError: there is no Slurm here, or it refuses.
        """
        if shutil.which("sbatch") is None:
            raise RelposError("engine=slurm: there is no sbatch here")
        tasks = SlurmTasks(self, standing, folder)
        tasks.look()
        return tasks

    def script(self, nodes: int, processes: int, job: Path, tasks: int) -> str:
        """What sbatch is given for an array of tasks, each with so many processes on each of its nodes."""
        options = {
            "job-name": "relpos", "array": f"0-{tasks - 1}", "nodes": nodes, "ntasks-per-node": processes,
            "cpus-per-task": self.threads or 1, "gpus-per-node": self.gpus * processes or None, "time": self.time,
            "partition": self.partition, "account": self.account, "mem": self.memory, "signal": f"USR2@{self.signal}",
            "output": job.parent / "slurm" / "%A_%a.log", "open-mode": "append", "requeue": True,
            **(self.more or {}),
        }  # fmt: skip
        asked = {name: value for name, value in options.items() if value is not None and value is not False}  # mem=0: all of it
        variables = thread_variables(self.threads or 1, asked=self.threads is not None) | {SAFE_PATH: "1"}
        worker = sys.executable, "-m", "relpos.launch.worker", str(job), "--slurm"
        return "\n".join([
            "#!/bin/sh",
            *(f"#SBATCH --{name}" + (f"={shlex.quote(str(value))}" if value is not True else "") for name, value in asked.items()),
            *(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
            *(self.setup or ()),
            f"exec srun --unbuffered --cpus-per-task={self.threads or 1} {shlex.join(worker)}\n",
        ])  # fmt: skip


class SlurmTasks:
    """The tasks of this launch and, where they are still in the queue, of other launches of the table: all stand in `BOOK`."""

    def __init__(self, engine: Slurm, standing: Standing, folder: Path) -> None:
        self.engine, self.standing, self.folder = engine, standing, folder
        self.guard = Guard(standing)
        self.book = folder.parent / BOOK
        self.submitted: dict[str, str] = {}
        """Number of a task of this launch that has not ended yet → identity of its run."""
        self.last_look = time.monotonic()
        self.silent_since: float | None = None
        """When Slurm failed to answer for the first time in a row; None while it answers."""

    def poll(self) -> None:
        """Looks at the queue now and then. The deaths of processes are counted in `execute`, run by run, not here.

        Raises:
            RelposError: tasks end without having started a run; or Slurm has not answered for a long time.
        """
        # The launcher polls several times a second, more often than a controller should be asked.
        if time.monotonic() - self.last_look < PAUSE:
            return
        self.last_look = time.monotonic()
        try:
            self.look()
            self.silent_since = None
        except Unanswered as error:  # a controller that is busy or restarting is no reason to end a launch of days
            if self.silent_since is None:
                self.silent_since = time.monotonic()
                say(f"relpos: {error}; its jobs go on, and it is asked again")
            if time.monotonic() - self.silent_since > SILENCE:
                raise

    def look(self) -> None:
        """Submits tasks for the runs that need one, as far as `array` allows.

        Raises:
            RelposError: tasks end without having started a run.
            Unanswered: Slurm refuses; what it has taken before is in the book.
        """
        book = tasks_of(self.book.parent)  # before the queue: what it has and the queue has not is over
        queue = in_queue()
        self.standing.look()  # after the queue, so that the records have what the tasks did last
        left, states = [*self.standing.unsettled.values()], self.standing.states
        ready = {run.identity: run for run in left if states[run.identity] != "running" and self.standing.is_ready(run)}
        for number in self.submitted.keys() - queue:
            # A task rightly ends where its run is not ready or another process is at work on it.
            if self.submitted.pop(number) in ready and self.guard.end(number):
                raise RelposError(f"engine=slurm: jobs end before they start a run: see {self.folder / 'slurm'}")
        tasks = {number: run for number, run in book.items() if number in queue}
        without = [run for identity, run in ready.items() if identity not in tasks.values()]
        without = without[: max(0, self.engine.array - len(tasks))]
        try:
            for form in sorted({shape(run) for run in without}):
                tasks |= self._submit(form, [run for run in without if shape(run) == form], left)
        finally:  # other launches may have added tasks meanwhile
            write_json(self.book, {number: run for number, run in tasks_of(self.book.parent).items() if number not in book} | tasks)

    def _submit(self, form: tuple[int, int], runs: list[Run], left: list[Run]) -> dict[str, str]:
        """Submits an array with a task for each of some runs; returns their numbers and runs."""
        # Another file each time: tasks of an earlier array may still have to read theirs.
        file = self.folder / f"job-{len([*self.folder.glob('*.json')])}.json"
        others = [run for run in left if shape(run) == form and run not in runs] if form == ALONE else []
        replace(self.standing.job, runs=[*runs, *others]).write(file)
        write_text(file.with_suffix(".sh"), self.engine.script(*form, file, len(runs)))
        (self.folder / "slurm").mkdir(exist_ok=True)
        number, *_ = _said("sbatch", "--parsable", str(file.with_suffix(".sh"))).strip().split(";")  # the cluster may follow
        tasks = {f"{number}_{task}": run.identity for task, run in enumerate(runs)}
        self.submitted |= tasks
        for each in tasks:
            self.guard.begin(each)
        return tasks

    def shutdown(self) -> None:
        """Cancels the tasks of this launch that are still there; they write their checkpoints and end.

        If an error ends the launcher, nothing is cancelled: the tasks are healthy, and the same command goes on with them.
        """
        if isinstance(sys.exception(), Exception):  # an error ends the launcher; KeyboardInterrupt is not an Exception
            say("relpos: engine=slurm: jobs in the queue stay there; the same command goes on with them")
            return
        left, deadline = set(self.submitted), time.monotonic() + PATIENCE
        if left:
            # Unchecked: scancel fails where one of the tasks has just ended, which is what is wanted.
            subprocess.run(["scancel", *sorted(left)], capture_output=True, check=False)
        while left and time.monotonic() < deadline:
            time.sleep(0.5)
            with suppress(Unanswered):
                left &= in_queue()
        over = self.submitted.keys() - left
        write_json(self.book, {number: run for number, run in tasks_of(self.book.parent).items() if number not in over})
        if left:
            say(f"relpos: engine=slurm: cancelled, and still in the queue: {' '.join(sorted(left))}")


def in_queue() -> set[str]:
    """Numbers of this user's tasks that wait or run, such as 12_3.

    Raises:
        Unanswered: squeue failed; has its message.
    """
    # `--array`: without it the waiting tasks of an array are one line, 12_[3-5], which no number in the book equals.
    return set(_said("squeue", "--noheader", "--array", "--format=%i", f"--user={getpass.getuser()}").split())


def _said(*command: str) -> str:
    """What a command of Slurm prints."""
    # A launcher that is itself a job has variables of that job, which are none of its tasks'.
    environment = {name: value for name, value in os.environ.items() if name == "SLURM_CONF" or not name.startswith("SLURM_")}
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=environment).stdout
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or "").strip() or str(error)
        raise Unanswered(f"engine=slurm: {command[0]}: {said.splitlines()[0]}") from error
