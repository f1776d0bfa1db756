"""The local engine: worker processes that share a job, and a launcher that watches them.

The folders are the queue and the claims keep workers apart, so nothing is lost with the launcher. It only divides the
cores, starts a worker again that died, passes Ctrl-C on, and shows what goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import IO, Any

from relpos.errors import RelposError
from relpos.runs.claim import claim
from relpos.runs.run import Run
from relpos.tables.jobs import Job, Standing
from relpos.tables.progress import Display

PAUSE = 0.3
"""Seconds between two looks at the folders."""
DEATHS = 3
"""So many workers may die over one run; then it has failed."""


def run_all(runs: list[Run], folder: Path, workers: int | None = None, threads: int | None = None) -> list[Run]:
    """Executes what is missing; returns the runs that failed.

    Args:
        runs: inputs before what needs them.
        folder: where the job and the workers' logs go, in a folder of this launch; logs stay where a run failed.
        workers: processes; None: one a core.
        threads: CPU threads of each; None: the cores divided among them.

    Raises:
        KeyboardInterrupt: asked to stop; the workers have written their checkpoints.
        RelposError: workers die before they do anything.
    """
    job = Job(runs, time.time())
    standing = Standing(job)
    pending = standing.open()
    if not pending:
        return []
    place = folder / f"launch-{os.getpid()}"  # of this launcher alone: several may work on one table
    job.write(place / "job.json")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = min(workers or cores, len(pending))
    crew = Crew(place, count, threads or max(1, cores // count))
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with Display(job, standing) as display:
            while standing.open():
                crew.replace_the_dead(job)
                display.show()
                time.sleep(PAUSE)
            display.show()
    finally:
        crew.dismiss()
        signal.signal(signal.SIGTERM, before)
    failed = [run for run in runs if standing.has_failed(run)]
    if not failed:
        shutil.rmtree(place, ignore_errors=True)
    return failed


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


class Crew:
    """Worker processes, each tethered to this one by a pipe that is its standard input.

    Args:
        folder: holds `job.json`; `worker-1.log` … are written there.
        count: how many.
        threads: CPU threads of each, unless OMP_NUM_THREADS says otherwise.
    """

    def __init__(self, folder: Path, count: int, threads: int) -> None:
        self.folder = folder
        self.environment = os.environ | {
            name: os.environ.get(name, os.environ.get("OMP_NUM_THREADS", str(threads)))
            for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        }
        self.deaths: Counter[str] = Counter()
        self.logs: list[IO[bytes]] = [(folder / f"worker-{number + 1}.log").open("ab") for number in range(count)]
        self.workers = [self._start(log) for log in self.logs]

    def _start(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "relpos.tables.worker", str(self.folder / "job.json"), "--tethered"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=self.environment,
            process_group=0,  # Ctrl-C reaches the launcher alone, which passes it on once
        )

    def replace_the_dead(self, job: Job) -> None:
        """Starts a worker again that ended before its time; a run over which several died is given up.

        Raises:
            RelposError: workers die although they hold no run.
        """
        for place, worker in enumerate(self.workers):
            if worker.poll() in (None, 0):
                continue
            run = next((run for run in job.runs if run.state == "running" and _holder(run) == worker.pid), None)
            key = run.identity if run else ""
            self.deaths[key] += 1
            if self.deaths[key] >= DEATHS:
                why = f"its worker ended {DEATHS} times with {_status(worker.returncode)}"
                if run is None:
                    raise RelposError(f"workers end with {_status(worker.returncode)}: see {self.logs[place].name}")
                _give_up(run, why)
            self.workers[place] = self._start(self.logs[place])

    def dismiss(self) -> None:
        """Closes the pipes and waits; a second Ctrl-C kills."""
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.close()
        try:
            for worker in self.workers:
                worker.wait()
        finally:
            for worker in self.workers:
                worker.kill()
            for log in self.logs:
                log.close()


def _holder(run: Run) -> int | None:
    try:
        return int(json.loads((run.path / "claim.json").read_text(encoding="utf-8"))["pid"])
    except (OSError, ValueError, KeyError):
        return None


def _status(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"status {code}"


def _give_up(run: Run, why: str) -> None:
    with claim(run.path, wait=False) as held:
        if held and run.state == "running":
            run.update(state="failed", error=why)
