"""An engine decides where runs are executed; the launcher watches the folders until all are settled.

The folders are the queue and the claims keep workers apart, so nothing is lost with the launcher, and several may work on one
table. An engine gets one job with all runs and gives a crew: something that works while the launcher looks after it.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from relpos.errors import RelposError
from relpos.launch.jobs import Job, Standing
from relpos.launch.progress import Display
from relpos.process import interrupt
from relpos.runs.distributed import place
from relpos.runs.run import Run

PAUSE = 0.3
"""Seconds between two looks at the folders; longer where looking takes long."""


class Crew(Protocol):
    """Workers that have begun."""

    def tend(self, standing: Standing) -> None:
        """Called again and again: starts anew what has died.

        Raises:
            RelposError: there is nothing more that it could do.
        """

    def dismiss(self) -> None:
        """Called once, at the end or on the way out: workers that are in the middle of a run write a checkpoint and end."""


class Engine(Protocol):
    """Where runs are executed; a class named by `engine._target_`, its arguments the other keys."""

    watch: bool
    """Whether the launcher stays until all is done."""

    def start(self, job: Job, pending: list[Run], folder: Path) -> Crew:
        """Sets workers to work on a job.

        Args:
            job: all runs, inputs before what needs them.
            pending: those that are not settled yet.
            folder: of this launch, for job files and workers' logs.
        """


def run_all(runs: list[Run], folder: Path, engine: Engine, retries: int = 0) -> list[Run]:
    """Executes what is missing; returns the runs that failed.

    Args:
        runs: inputs before what needs them.
        folder: where job and logs go, in a folder of this launch; logs stay where a run failed.
        engine: where to execute them.
        retries: how often a run that fails is tried again.

    Raises:
        KeyboardInterrupt: asked to stop; the workers have written their checkpoints.
        RelposError: workers die before they do anything; or several processes were started instead of one.
    """
    if place() is not None:
        raise RelposError("a table is started once, not by torchrun or srun: its engine starts the processes that runs ask for")
    job = Job.now(runs, retries)
    standing = Standing(job)
    pending = standing.open()
    if not pending:
        return []
    job.write(folder / "plan.json")  # what `relpos status` looks at
    own = Path(tempfile.mkdtemp(prefix="launch-", dir=folder))  # of this launcher alone: several may work on one table
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        crew = engine.start(job, pending, own)
        if not engine.watch:
            return []
        try:
            _watch(job, standing, crew)
        finally:
            crew.dismiss()
    finally:
        signal.signal(signal.SIGTERM, before)
        with suppress(OSError):
            own.rmdir()  # nothing is in it where the engine refused
    failed = [run for run in runs if standing.has_failed(run)]
    if not failed:
        shutil.rmtree(own, ignore_errors=True)
    return failed


def _watch(job: Job, standing: Standing, crew: Crew) -> None:
    with Display(job, standing) as display:
        while True:
            began = time.monotonic()
            left = standing.open()
            display.show()
            if not left:
                return
            crew.tend(standing)
            time.sleep(max(PAUSE, 5 * (time.monotonic() - began)))
