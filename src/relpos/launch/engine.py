"""An engine decides where runs are executed; the launcher watches the folders until all runs are settled.

The folders are the queue and the locks keep workers apart, so nothing is lost with the launcher, and several launchers may work on
one table. An engine starts workers for a job with all the runs; the launcher polls them, and shuts them down at the end.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from relpos.errors import RelposError, say
from relpos.files import remove_left
from relpos.launch.jobs import PLAN, Job, Standing
from relpos.launch.progress import Display
from relpos.pool import Item, Result
from relpos.process import interruptible
from relpos.readers import read_json
from relpos.runs.distributed import place
from relpos.runs.execute import execute
from relpos.runs.lock import HOLDER, LOCK, is_locked, locked
from relpos.runs.run import Run

PAUSE = 0.3
"""Seconds between two looks at the folders; longer where looking takes long."""
FRUITLESS = 3
"""The launch ends after this many workers in a row that ended without having started a run."""
BOOK = "slurm.json"
"""In a table's folder: the tasks of all its launches that are in a cluster's queue, each with the identity of its run."""
HOUR = 3600
"""Seconds in which a small file is written, however slow the disk."""


class Workers(Protocol):
    """What an engine has started."""

    def poll(self) -> None:
        """Called again and again: restarts workers that have died.

        Raises:
            RelposError: a restart would not help.
        """

    def shutdown(self) -> None:
        """Called once, at the end or on the way out: workers that are in the middle of a run write a checkpoint and end."""


class Guard:
    """Tells a launch whose workers cannot work (a broken environment, a full disk) from one whose workers die at work.

    The death of a worker during a run is counted in that run's record (relpos.runs.retries), and after a few deaths the run is
    given up. A worker that dies before it has started any run appears in no record: without this class it would be restarted
    for ever.

    Args:
        standing: of the launch. How many starts its records hold tells whether anything was begun.
    """

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.began: dict[str, int] = {}
        self.fruitless = 0

    def begin(self, worker: str) -> None:
        """Notes that a worker begins."""
        self.began[worker] = self.standing.starts

    def end(self, worker: str) -> bool:
        """Notes that a worker has ended early. Returns whether too many in a row have ended without starting a run.

        Call it after the records have been read again. A worker counts as useful if any run was started since it began:
        which worker started it is not known. Workers of an earlier launch always count as useful.
        """
        idle = self.standing.starts == self.began.pop(worker, -1)
        self.fruitless = self.fruitless + 1 if idle else 0
        return self.fruitless >= FRUITLESS


class Engine(Protocol):
    """Where runs are executed: a class named by `engine._target_`, its arguments the other keys."""

    def start(self, standing: Standing, folder: Path) -> Workers | None:
        """Starts workers on a job.

        Args:
            standing: the job and how its runs stand.
            folder: of this launch, for job files and workers' logs.

        Returns:
            The workers to wait for; None where there is nothing to wait for.
        """

    def each(
        self, function: Callable[[Item], Result], items: Sequence[Item], title: str, accelerator: str = "auto"
    ) -> list[Result]:
        """Applies a function to each item, see `relpos.pool`: one after another in this process, unless the engine does better.

        Args:
            accelerator: that the function uses: auto, cpu or gpu.
        """
        return [function(item) for item in items]


@dataclass(frozen=True)
class Debug(Engine):
    """`engine=debug`: one run after another in this process, where a breakpoint, a debugger and a profiler reach it.

    What a run prints is shown and not kept. The first run that fails ends the command with that run's own error, so that
    `python -m pdb -c continue -m relpos.cli reproduce … engine=debug` stops where it happened.
    """

    def start(self, standing: Standing, folder: Path) -> None:
        """Executes all runs that are not settled.

        Raises:
            Exception: whatever a run raised.
        """
        for run in standing.open():
            say(f"relpos: {run.stage} {run.name}")
            with interruptible():  # for each run again: training installs its own signal handlers and does not remove them
                execute(run)


def run_all(
    runs: list[Run], folder: Path, engine: Engine, retries: int = 0, settled: Callable[[Run], None] = lambda run: None
) -> list[Run]:
    """Executes what is missing; returns the runs that failed.

    Args:
        runs: inputs before the runs that need them.
        folder: of the table. Job files and logs go into a subfolder for this launch, which is kept if a run failed.
        engine: where to execute them.
        retries: how often a run that fails is tried again.
        settled: called for each run once it is finished, or has failed, while the others go on.

    Raises:
        KeyboardInterrupt: the launcher was asked to stop; the workers have written their checkpoints.
        RelposError: workers die before they start a run; or several launchers were started by torchrun or srun.
    """
    if place() is not None:
        raise RelposError("a table is started once, not by torchrun or srun: its engine starts the processes that runs ask for")
    job = Job.now(runs, retries)
    standing = Standing(job)
    if not standing.open():
        return []
    job.write(folder / PLAN)
    remove_left(folder, HOUR)
    for left in folder.glob("launch-*"):
        if _is_left(left):
            shutil.rmtree(left, ignore_errors=True)
    launch = Path(tempfile.mkdtemp(prefix="launch-", dir=folder))  # of this launcher alone: several may work on one table
    failed: list[Run] = []
    try:
        with locked(launch), interruptible():
            workers = engine.start(standing, launch)
            if workers is not None:
                try:
                    _watch(standing, folder.name, workers, settled)
                finally:
                    workers.shutdown()
                failed = standing.those("failed")
                if not failed:
                    shutil.rmtree(launch, ignore_errors=True)
    finally:
        with suppress(OSError):
            if {file.name for file in launch.iterdir()} <= {LOCK, HOLDER}:  # the engine refused, or needed no files
                shutil.rmtree(launch)
    return failed


def tasks_of(table: Path) -> dict[str, str]:
    """What the `BOOK` of a table says: number of a task → identity of its run; nothing where it is missing or damaged."""
    with suppress(RelposError):
        content: dict[str, str] = read_json(table / BOOK, dict[str, str], {})
        return content
    return {}


def _is_left(launch: Path) -> bool:
    """Whether the folder is of a launch that is over. Tasks in a cluster's queue still read theirs."""
    queued = (launch / "slurm").exists() and tasks_of(launch.parent)
    return not queued and (launch / LOCK).exists() and not is_locked(launch)


def _watch(standing: Standing, table: str, workers: Workers, settled: Callable[[Run], None]) -> None:
    with Display(standing, table) as display:
        while True:
            began = time.monotonic()
            left = standing.open()
            new = display.show()
            if not left:
                return  # what was settled last is in the table, which follows at once
            workers.poll()
            looked = time.monotonic() - began
            for run in new:
                settled(run)
            # However many runs there are and however slow their disk, looking takes at most a sixth of the time.
            time.sleep(max(PAUSE, 5 * looked))
