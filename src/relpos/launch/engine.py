"""An engine decides where runs are executed; the launcher watches the folders until all runs are
settled.

The folders are the queue and the locks keep workers apart, so nothing is lost with the launcher,
and several launchers may work on one table. An engine starts workers for a job with all the runs;
the launcher polls them, and shuts them down at the end. `Debug` and `Local` use this machine alone:
this very process, and worker processes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Protocol

from relpos.errors import RelposError, plural, say
from relpos.files import HOUR, LOCK, opened, remove_left
from relpos.launch.jobs import JOB, PLAN, Job, Standing, pause_after
from relpos.launch.progress import displayed
from relpos.process import (
    VISIBLE,
    cores,
    end_all,
    exit_status,
    gpus,
    handling,
    interrupt,
    started,
    thread_variables,
)
from relpos.ranges import Count, Threads
from relpos.runs.distributed import place, shape
from relpos.runs.execute import execute
from relpos.runs.lock import is_locked, locked
from relpos.runs.run import Run

FRUITLESS = 3
"""The launch ends after so many workers in a row that ended without having started a run."""
SCRIPT = "array.sh"
"""File in a launch's folder with the script of a cluster's tasks, which may wait in the queue when
the launcher is gone."""


class Workers(Protocol):
    """The processes that an engine has started."""

    def poll(self) -> None:
        """Restarts workers that have died; called again and again.

        Raises:
            RelposError: a restart would not help.
        """

    def shutdown(self) -> None:
        """Ends the workers, which write a checkpoint of a run under way; called once, at the end or
        when the launcher stops."""


class Engine(Protocol):
    """The way in which runs are executed: a class named by `engine._target_`; the other keys are
    its arguments."""

    def start(self, standing: Standing, folder: Path) -> Workers | None:
        """Starts workers on a job.

        Args:
            standing: the job and how its runs stand.
            folder: of this launch, with the job's file, and for workers' logs.

        Returns:
            The workers to wait for; None where there is nothing to wait for.
        """


@dataclass(frozen=True)
class Debug(Engine):
    """`engine=debug`: one run after another in this process, where a breakpoint, a debugger and a
    profiler reach it.

    The output of a run is shown and not kept. The first run that fails ends the command with that
    run's own error, so that `python -m pdb -c continue -m relpos.cli reproduce … engine=debug`
    stops where it happened.
    """

    def start(self, standing: Standing, folder: Path) -> None:
        """Executes all runs that are not settled.

        Raises:
            Exception: whatever a run raised.
        """
        for run in standing.open():
            say(f"relpos: {run.stage} {run.name}")
            # for each run, because training installs its own signal handlers and does not remove
            # them
            with handling(interrupt):
                execute(run)


@dataclass(frozen=True)
class Local(Engine):
    """`engine=local`: worker processes here, all taking runs from one job, with the GPUs that
    CUDA_VISIBLE_DEVICES leaves.

    It divides the cores among the workers, restarts a worker that died, and passes Ctrl-C on. The
    worker of a run of several devices starts a process for each of them.

    Args:
        workers: processes side by side; None: `runs_per_device` on each GPU, or one per core where
            there is no GPU.
        threads: CPU threads of each worker; None: the cores divided among them.
        runs_per_device: runs side by side on one GPU.
    """

    workers: Count | None = None
    threads: Threads | None = None
    runs_per_device: Count = 1

    def start(self, standing: Standing, folder: Path) -> LocalWorkers:
        """Starts one worker for each of `places`."""
        places = self.places(standing.open())
        threads = self.threads or max(1, cores() // len(places))
        variables = os.environ | thread_variables(threads, asked=self.threads is not None)
        return LocalWorkers(standing, folder, [variables | visible for visible in places])

    def places(self, pending: list[Run]) -> list[dict[str, str]]:
        """The variables of each worker, at most one per run, that say which GPUs it sees: as many
        as a run takes; none where it works on the CPU.

        Raises:
            RelposError: there are fewer GPUs than a run takes.
        """
        names, size = gpus(), max(shape(run)[1] for run in pending)
        shares = [dict[str, str]()]
        workers = max(1, cores() // size)
        speeds = [run.config.speed for run in pending]
        if names and any(speed and speed.accelerator != "cpu" for speed in speeds):
            # The last GPUs may be too few for a run and stay idle.
            firsts = range(0, len(names) - size + 1, size)
            shares = [{VISIBLE: ",".join(names[first : first + size])} for first in firsts]
            workers = len(shares) * self.runs_per_device
        if not shares:
            raise RelposError(f"speed.devices={size}: engine=local has {plural(len(names), 'GPU')}")
        # Round by round, so that few workers spread over all GPUs; with more they share them.
        return [*islice(cycle(shares), min(len(pending), self.workers or workers))]


@dataclass
class LocalWorkers:
    """Worker processes, each tethered to this one by a pipe that is its standard input; their logs
    are in `folder`.

    The death of a worker during a run is counted in that run's record (relpos.runs.retries), and
    after a few deaths the run is given up. A worker that dies before it has started any run (a
    broken environment, a full disk) is in no record, and would be restarted for ever; therefore
    workers are counted that end without any start of a run since they began.
    """

    standing: Standing
    folder: Path
    environments: list[dict[str, str]]
    fruitless: int = 0
    """Workers in a row that have ended without a start of any run, by whichever worker."""

    def __post_init__(self) -> None:
        numbers = range(len(self.environments))
        self.began = [self.standing.starts] * len(numbers)
        """For each worker, the number of starts in the records when it began."""
        self.logs = [self.folder / f"worker-{number + 1}.log" for number in numbers]
        self.processes = [*map(self._start, numbers)]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        with opened(self.logs[number], "ab") as log:
            return started(
                "relpos.launch.worker",
                str(self.folder / JOB),
                environment=self.environments[number],
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C reaches the launcher alone, which passes it on once
            )

    def poll(self) -> None:
        """Restarts workers that ended early; `execute` counts the deaths, run by run.

        Raises:
            RelposError: workers end without having started a run.
        """
        codes = [process.poll() for process in self.processes]
        ended = [number for number, code in enumerate(codes) if code not in (None, 0)]
        if not ended and None in codes:
            return
        # all workers ended normally, but the folder of a finished run was deleted
        if not ended and self.standing.open():
            ended = [0]
        # Read after the exit codes, so that the records are the workers' last ones.
        starts = self.standing.starts
        for number in ended:
            self.fruitless += 1
            if starts != self.began[number]:
                self.fruitless, self.began[number] = 0, starts
            if self.fruitless >= FRUITLESS:
                raise RelposError(
                    f"workers end with {exit_status(codes[number])}: see {self.logs[number]}"
                )
            self.processes[number] = self._start(number)

    def shutdown(self) -> None:
        """Closes the pipes and waits, ten minutes at most; a second Ctrl-C kills."""
        end_all(self.processes)


def run_all(
    runs: list[Run],
    folder: Path,
    engine: Engine,
    retries: int = 0,
    settled: Callable[[Run], None] = lambda run: None,
) -> list[Run]:
    """Executes the missing runs; returns the runs that failed.

    Args:
        runs: inputs before the runs that need them.
        folder: of the table. Job files and logs go into a subfolder for this launch, which is kept
            if a run failed.
        engine: where to execute them.
        retries: how often a run that fails is tried again.
        settled: called for each run once it is finished or has failed, while other runs go on.

    Raises:
        KeyboardInterrupt: the launcher was told to stop; the workers have written their
            checkpoints.
        RelposError: workers die before they start a run; or several launchers were started by
            torchrun or srun.
    """
    if place() is not None:
        raise RelposError(
            "a table is started once, not by torchrun or srun: its engine starts the "
            "processes that runs ask for"
        )
    job = Job.now(runs, retries)
    standing = Standing(job)
    if not standing.open():
        return []
    job.write(folder / PLAN)
    remove_left(folder, HOUR)
    for path in filter(_is_over, folder.glob("launch-*")):
        shutil.rmtree(path, ignore_errors=True)
    # A folder of this launcher, because several may work on one table.
    launch = Path(tempfile.mkdtemp(prefix="launch-", dir=folder))
    job.write(launch / JOB)
    with locked(launch), handling(interrupt):
        if workers := engine.start(standing, launch):
            try:
                _watch(standing, folder.name, workers, settled)
            finally:
                workers.shutdown()
        standing.open()
        if not (failed := standing.in_state("failed")):
            shutil.rmtree(launch, ignore_errors=True)
    return failed


def _is_over(launch: Path) -> bool:
    """Whether the launch of a folder is over. Tasks in a cluster's queue will still read its job."""
    return (launch / LOCK).exists() and not (launch / SCRIPT).exists() and not is_locked(launch)


def _watch(
    standing: Standing,
    table: str,
    workers: Workers,
    settled: Callable[[Run], None],
) -> None:
    with displayed(standing, table) as show:
        while True:
            began = time.monotonic()
            unsettled = standing.open()
            new = show()
            if not unsettled:
                return  # the last settled runs are in the table, which follows at once
            workers.poll()
            looked = time.monotonic() - began
            for run in new:
                settled(run)
            time.sleep(pause_after(looked))
