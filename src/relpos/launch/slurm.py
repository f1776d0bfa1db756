"""The Slurm engine: an array of the worker that `engine=local` uses, on any number of nodes that
see the folders.

The locks of the runs keep its tasks apart, and the tasks of other launches of the same table.
Besides, Slurm only has to answer whether the array is still in its queue.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from relpos.errors import RelposError, plural, say
from relpos.files import write_text
from relpos.launch.engine import SCRIPT, Engine
from relpos.launch.jobs import JOB, Standing
from relpos.process import SAFE_PATH, thread_variables
from relpos.ranges import Count, Natural, Threads
from relpos.readers import Plain
from relpos.runs.distributed import shape
from relpos.runs.run import Run

PAUSE = 5.0
"""Seconds between two looks at the queue."""
PATIENCE = 600.0
"""Seconds that tasks have for their checkpoints when the launch is stopped."""


@dataclass(frozen=True)
class Slurm(Engine):
    """`engine=slurm`: jobs on a cluster whose nodes see `$RELPOS_RUNS`.

    Args:
        partition: None: the cluster's default; likewise for `account` and `memory`.
        account: the account that pays for the time.
        time: minutes that a task may take; then it goes back into the queue, and its run goes on
            from a checkpoint.
        threads: CPU cores of each process of a run.
        gpus: GPUs of each process of a run.
        memory: of a node, such as 16GB.
        array: the tasks of a launch, at most one for each run.
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
    array: Count = 8
    signal: Count = 120
    setup: list[str] | None = None
    more: Plain | None = None

    def __post_init__(self) -> None:
        # a task with the signal at its begin would go back into the queue for ever
        if self.signal >= 60 * self.time:
            raise RelposError(
                f"engine.signal={self.signal}: fewer seconds are expected than "
                f"engine.time={self.time} minutes have"
            )

    def start(self, standing: Standing, folder: Path) -> SlurmArray:
        """Submits the array.

        Raises:
            RelposError: there is no Slurm here, or it refuses.
        """
        write_text(folder / SCRIPT, self.script(standing.open(), folder))
        answer = _answer("sbatch", "--parsable", str(folder / SCRIPT))
        # the cluster's name may follow
        return SlurmArray(answer.strip().partition(";")[0], standing, folder)

    def script(self, runs: list[Run], folder: Path) -> str:
        """The batch script for an array of tasks, each with the nodes and processes of the widest
        of these runs.

        The script becomes the worker, which starts the processes of a run on the task's nodes when
        it comes to that run.
        """
        nodes, processes = map(max, zip(*map(shape, runs), strict=True))
        options = {
            "job-name": "relpos",
            "array": f"0-{min(self.array, len(runs)) - 1}",
            "nodes": nodes,
            "ntasks-per-node": processes,
            "cpus-per-task": self.threads or 1,
            "gpus-per-node": self.gpus * processes or None,
            "time": self.time,
            "partition": self.partition,
            "account": self.account,
            "mem": self.memory,
            "signal": f"B:USR2@{self.signal}",
            "output": folder / "worker-%a.log",
            "open-mode": "append",
            "requeue": True,
            **(self.more or {}),
        }
        lines = ["#!/bin/sh"]
        for name, value in options.items():
            if value is True:
                lines.append(f"#SBATCH --{name}")
            elif value is not None and value is not False:  # mem=0: all of it
                lines.append(f"#SBATCH --{name}={shlex.quote(str(value))}")
        threads = (self.threads or 1) * processes
        variables = thread_variables(threads, asked=self.threads is not None)
        variables = {**variables, SAFE_PATH: "1"}
        lines += (f"export {name}={shlex.quote(value)}" for name, value in variables.items())
        worker = sys.executable, "-m", "relpos.launch.worker", str(folder / JOB), "--slurm"
        return "\n".join([*lines, *(self.setup or ()), f"exec {shlex.join(worker)}\n"])


@dataclass
class SlurmArray:
    """The tasks of a launch.

    Args:
        number: the number of the array.
        standing: the job and the state of its runs.
        folder: of the launch.
        next_look: the time before which the queue is not read again.
    """

    number: str
    standing: Standing
    folder: Path
    next_look: float = 0.0

    def poll(self) -> None:
        """Reads the queue now and then; tasks that Slurm puts back into it still belong to the
        array.

        Raises:
            RelposError: all tasks have ended, and runs are left.
        """
        # The launcher polls several times a second, too often for Slurm's controller.
        if time.monotonic() < self.next_look:
            return
        self.next_look = time.monotonic() + PAUSE
        # The folders are read after the queue, so that the records are the tasks' last ones.
        if not self._is_queued() and (unsettled := self.standing.open()):
            raise RelposError(
                f"engine=slurm: the tasks of array {self.number} have ended, and "
                f"{plural(len(unsettled), 'run')} are left: "
                f"see worker-*.log in {self.folder}; the same command submits another array"
            )

    def _is_queued(self) -> bool:
        """Whether a task waits or runs; True if Slurm does not answer."""
        try:
            return self.number in _answer("squeue", "--noheader", "--format=%F", "--me").split()
        except RelposError:  # a busy or restarting controller must not end a launch of days
            return True

    def shutdown(self) -> None:
        """Cancels waiting tasks, makes running ones write a checkpoint and end, and waits for that,
        unless Ctrl-C comes again.

        If an error ends the launcher, nothing is cancelled: the tasks go on.
        """
        if isinstance(sys.exception(), Exception):  # KeyboardInterrupt is not an Exception
            say(
                "relpos: engine=slurm: tasks in the queue stay there; the same command adds others "
                "to them"
            )
            return
        deadline = time.monotonic() + PATIENCE
        try:
            # Signals reach running tasks only; one to all steps would end the processes of a run
            # before their checkpoint.
            _cancel("--state=PENDING", self.number)
            _cancel("--batch", "--signal=TERM", self.number)
            while self._is_queued() and time.monotonic() < deadline:
                time.sleep(0.5)
        finally:
            _cancel(self.number)
        (self.folder / SCRIPT).unlink(missing_ok=True)


def _cancel(*arguments: str) -> None:
    with suppress(RelposError):  # a task that has just ended cannot be cancelled
        _answer("scancel", *arguments)


def _answer(*command: str) -> str:
    """The output of a command of Slurm.

    Raises:
        RelposError: the command fails; the message is its own.
    """
    # A launcher that is itself a job has variables of that job, which its tasks must not inherit.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name == "SLURM_CONF" or not name.startswith("SLURM_")
    }
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env=environment,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        message = str(getattr(error, "stderr", None) or error).strip().partition("\n")[0]
        raise RelposError(f"engine=slurm: {command[0]}: {message}") from error
