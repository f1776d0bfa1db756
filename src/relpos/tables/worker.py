"""`python -m relpos.tables.worker JOB.json`: executes the runs of a job, one after another, until none is left to do.

Any number of workers may share a job, on any number of machines that see the folders: the claims keep them apart.
With `--tethered`, standard input is a pipe from the launcher; when it closes, the worker writes a checkpoint and ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from relpos.runs.execute import execute
from relpos.runs.run import Run
from relpos.tables.jobs import Job, Standing
from relpos.train.signals import STOPS

PAUSE = 0.2
"""Seconds between two looks at runs that other processes hold."""


def work(job: Job, stop: threading.Event) -> None:
    """Takes the first ready run that nobody holds, executes it, and looks again from the top.

    Where the job names the runs that are its own, others only say what is ready, and nobody waits for them.
    """
    standing = Standing(job)
    while not stop.is_set():
        waiting = False
        for run, _ in standing.walk():
            mine = job.own is None or run.identity in job.own
            waiting |= mine
            if mine and standing.is_ready(run) and _attempt(run, job.forgiven(run)):
                break
        else:
            if not waiting or job.own is not None:
                return
            stop.wait(PAUSE)


def _attempt(run: Run, forgiven: int) -> bool:
    """Whether something became of the run; False where another process holds it."""
    _reset()
    try:
        execute(run, wait=False, log=True, forgiven=forgiven)
    except Exception:  # the record says what happened, the run's log how; the other runs go on
        print(f"--- {run.path}", file=sys.stderr)
        traceback.print_exc()
    return run.state in ("finished", "failed")


def _reset() -> None:
    """What a run may have left behind in this process: signal handlers, and a number of threads."""
    for number in STOPS:
        signal.signal(number, _interrupt)
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(int(threads))


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt(number)


def interrupted(job: Job) -> int | None:
    """Works on a job; the signal that ended it before its time."""
    _reset()
    try:
        work(job, threading.Event())
    except KeyboardInterrupt as stop:
        return int(stop.args[0]) if stop.args else int(signal.SIGTERM)
    return None


def _tether(stop: threading.Event) -> None:
    """Asks this process to stop when the launcher closes the pipe, or is gone."""
    while os.read(0, 1024):
        pass
    stop.set()
    os.kill(os.getpid(), signal.SIGTERM)


def main(argv: list[str]) -> int:
    """Works on the job; 130 where it was asked to stop."""
    stop = threading.Event()
    _reset()
    if "--tethered" in argv:
        threading.Thread(target=_tether, args=(stop,), daemon=True).start()
    try:
        work(Job.read(Path(argv[0])), stop)
    except KeyboardInterrupt:
        stop.set()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # there is nothing left to stop
    return 130 if stop.is_set() else 0


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())  # classes from outside the package
    sys.exit(main(sys.argv[1:]))
