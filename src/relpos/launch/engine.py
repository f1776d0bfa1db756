"""An engine decides where runs are executed; the launcher watches the folders until all runs are settled.

The folders are the queue and the locks keep workers apart, so nothing is lost with the launcher, and several launchers may work on
one table. An engine starts workers for a job with all the runs; the launcher polls them, and shuts them down at the end. `Debug`
and `Local` use this machine alone: this very process, and worker processes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from relpos.errors import RelposError, plural, say
from relpos.files import HOUR, LOCK, opened, remove_left
from relpos.launch.jobs import PLAN, Job, Standing, rest
from relpos.launch.progress import displayed
from relpos.pool import Item, Result, side_by_side
from relpos.process import cores, end_all, exit_status, interruptible, started, thread_variables
from relpos.ranges import Count, Threads
from relpos.runs.cost import GPUS
from relpos.runs.distributed import place, shape
from relpos.runs.execute import execute
from relpos.runs.lock import is_locked, locked
from relpos.runs.run import Run

FRUITLESS = 3
"""The launch ends after this many workers in a row that ended without having started a run."""
SCRIPT = "array.sh"
"""In a launch's folder: what a cluster was given for its tasks, which may wait in the queue when the launcher is gone."""


class Workers(Protocol):
    """What an engine has started."""

    def poll(self) -> None:
        """Called again and again: restarts workers that have died.

        Raises:
            RelposError: a restart would not help.
        """

    def shutdown(self) -> None:
        """Called once, at the end or on the way out: workers that are in the middle of a run write a checkpoint and end."""


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

    def each(self, function: Callable[[Item], Result], items: Sequence[Item], title: str) -> list[Result]:
        """Applies a function to each item, see `relpos.pool`: one after another in this process, unless the engine does better."""
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


@dataclass(frozen=True)
class Local(Engine):
    """`engine=local`: worker processes here, all taking runs from one job, with the GPUs that CUDA_VISIBLE_DEVICES leaves.

    It divides the cores among the workers, restarts a worker that died, and passes Ctrl-C on. A run of several devices has one
    process for each; its worker starts them.

    Args:
        workers: processes side by side; None: `runs_per_device` on each GPU, or one per core where there is no GPU.
        threads: CPU threads of each worker; None: the cores divided among them.
        runs_per_device: runs side by side on one GPU.
    """

    workers: Count | None = None
    threads: Threads | None = None
    runs_per_device: Count = 1

    def start(self, standing: Standing, folder: Path) -> LocalWorkers:
        """Starts one worker for each of `places`."""
        environments = self._environments(self.places(standing.open()))
        standing.job.write(folder / "job.json")
        return LocalWorkers(standing, folder, environments)

    def each(self, function: Callable[[Item], Result], items: Sequence[Item], title: str) -> list[Result]:
        """Applies a function in as many processes as there are workers, each with a worker's threads and GPU."""
        environments = self._environments(self._slots(False, size=1)[: len(items)])
        if len(environments) < 2:
            return super().each(function, items, title)
        return side_by_side(function, items, environments, title)

    def _environments(self, places: Sequence[str | None]) -> list[dict[str, str]]:
        """The environment variables of the worker at each place."""
        threads = thread_variables(self.threads or max(1, cores() // max(1, len(places))), asked=self.threads is not None)
        return [os.environ | threads | ({} if place is None else {"CUDA_VISIBLE_DEVICES": place}) for place in places]

    def places(self, pending: list[Run]) -> list[str | None]:
        """One entry per worker: the GPUs that it sees, as many as a run takes; None where it works on the CPU. At most one per run.

        Raises:
            RelposError: there are fewer GPUs than a run takes.
        """
        speeds = [run.config["speed"] for run in pending if "speed" in run.config]  # other stages use no GPU
        on_cpu = all(speed.get("accelerator") == "cpu" for speed in speeds)
        return self._slots(on_cpu, max((shape(run)[1] for run in pending), default=1))[: len(pending)]

    def _slots(self, on_cpu: bool, size: int) -> list[str | None]:
        """One entry per worker: the GPUs that it sees, `size` of them; None where it works on the CPU."""
        gpus = _gpus()
        if on_cpu or not gpus:
            return [None] * (self.workers or max(1, cores() // size))
        # GPUs that are left over are too few for a run, and stay idle.
        shares = [",".join(gpus[i : i + size]) for i in range(0, len(gpus) - size + 1, size)]
        if not shares:
            raise RelposError(f"speed.devices={size}: engine=local has {plural(len(gpus), 'GPU')}")
        # Round by round, so that few workers spread over all GPUs.
        slots = [share for _ in range(self.runs_per_device) for share in shares]
        return [slots[i % len(slots)] for i in range(self.workers or len(slots))]  # more workers than slots: they share them


def _gpus() -> list[str]:
    """Names of the GPUs that CUDA_VISIBLE_DEVICES leaves, or of all where it is not set, without loading torch."""
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    if names is not None:
        return [name for name in names.split(",") if name.strip() not in ("", "-1")]
    return [str(number) for number, _ in enumerate(GPUS.glob("*"))]


class LocalWorkers:
    """Worker processes, each tethered to this one by a pipe that is its standard input; their logs lie in `folder`.

    The death of a worker during a run is counted in that run's record (relpos.runs.retries), and after a few deaths the run is
    given up. A worker that dies before it has started any run (a broken environment, a full disk) appears in no record, and would
    be restarted for ever: so workers are counted that end without any run having been started since they began.
    """

    def __init__(self, standing: Standing, folder: Path, environments: list[dict[str, str]]) -> None:
        self.standing, self.folder, self.environments = standing, folder, environments
        self.fruitless = 0
        """Workers in a row that have ended without a start of any run; which of them started it is not known."""
        self.began = [0] * len(environments)
        """Starts in the records when a worker began."""
        self.logs = [folder / f"worker-{number + 1}.log" for number in range(len(environments))]
        self.processes = [self._start(number) for number in range(len(environments))]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        self.began[number] = self.standing.starts
        with opened(self.logs[number], "ab") as log:
            return started(
                "relpos.launch.worker",
                str(self.folder / "job.json"),
                environment=self.environments[number],
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C reaches the launcher alone, which passes it on once
            )

    def poll(self) -> None:
        """Restarts workers that ended early. The deaths are counted in `execute`, run by run, not here.

        Raises:
            RelposError: workers end without having started a run.
        """
        codes = [process.poll() for process in self.processes]
        ended = [number for number, code in enumerate(codes) if code not in (None, 0)]
        if not ended and any(code is None for code in codes):
            return
        left = self.standing.open()  # read after the exit codes, so that the records have what the workers did last
        if not ended and left:  # all workers ended normally and runs are left: the folder of a finished run was deleted
            ended = [0]
        for number in ended:
            self.fruitless = self.fruitless + 1 if self.standing.starts == self.began[number] else 0
            if self.fruitless >= FRUITLESS:
                raise RelposError(f"workers end with {exit_status(codes[number])}: see {self.logs[number]}")
            self.processes[number] = self._start(number)

    def shutdown(self) -> None:
        """Closes the pipes and waits, ten minutes at most; a second Ctrl-C kills."""
        end_all(self.processes)


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
    return failed


def _is_left(launch: Path) -> bool:
    """Whether the folder is of a launch that is over. Tasks that wait in a cluster's queue have yet to read theirs."""
    return (launch / LOCK).exists() and not (launch / SCRIPT).exists() and not is_locked(launch)


def _watch(standing: Standing, table: str, workers: Workers, settled: Callable[[Run], None]) -> None:
    with displayed(standing, table) as show:
        while True:
            began = time.monotonic()
            left = standing.open()
            new = show()
            if not left:
                return  # what was settled last is in the table, which follows at once
            workers.poll()
            looked = time.monotonic() - began
            for run in new:
                settled(run)
            time.sleep(rest(looked))
