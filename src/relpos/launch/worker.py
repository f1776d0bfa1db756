"""`python -m relpos.launch.worker JOB.json`: executes the runs of a job, one after another, until
none is left to do.

Several workers may share a job, on any number of machines that see the folders: the locks
keep them apart. Standard input is a pipe from the launcher; when it closes, the worker writes a
checkpoint and ends. With `--slurm` the worker is a task of a Slurm array, and nothing is read from
standard input.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

from relpos.errors import RelposError, one_line, say
from relpos.launch.jobs import IMPOSSIBLE, Job, Standing, pause_after
from relpos.process import interrupt, omp_threads, on_stops, set_threads, tether
from relpos.runs.execute import execute
from relpos.runs.lock import locked
from relpos.runs.retries import failures
from relpos.runs.run import Run
from relpos.when_imported import import_quickly


def work(job: Job, stop: threading.Event) -> None:
    """Executes the first ready run that no other process holds, and then looks again from the top,
    until none is left.

    It waits for runs that other processes hold, because runs that need them may follow.

    Args:
        job: the runs.
        stop: set from another thread to end the work.

    Raises:
        RelposError: some runs can be neither executed nor marked as failed.
    """
    standing = Standing(job)
    while not stop.is_set():
        began = time.monotonic()
        for run in standing.walk():
            if standing.is_ready(run) and _attempt(run, standing):
                break  # an earlier run may have waited for it
        else:
            if not standing.unsettled:
                break
            stop.wait(pause_after(time.monotonic() - began))
    if names := ", ".join(f"{run.path}" for run in standing.in_state(IMPOSSIBLE)):
        raise RelposError(f"these runs can be {IMPOSSIBLE}: {names}")


def _attempt(run: Run, standing: Standing) -> bool:
    """Tries a run. Returns True if it is settled or may be tried again, False if another process
    holds it.

    A try that ends with an error counts as a failure in the run's record; `execute` writes it,
    unless there was none yet, as before the start. If it cannot be written, the run is set aside.
    """
    _reset()
    before = failures(run.record)
    try:
        execute(run, wait=False, log=True, retries=standing.job.retries_of(run))
    # the error is in the run's log, too; the worker goes on with other runs
    except (Exception, SystemExit) as error:
        say(f"--- {run.path}")
        traceback.print_exc()
        try:
            with locked(run.path, wait=False) as is_held:
                # otherwise another process is at work on the run
                if is_held and failures(run.record) <= before:
                    run.end("failed", error=one_line(error))
        except (OSError, RelposError):
            traceback.print_exc()
            standing.give_up(run, IMPOSSIBLE)
            return True
    return run.state in ("finished", "failed")


def _reset() -> None:
    """Restores signal handlers, the number of threads and the memory of this process, which a run
    changes."""
    on_stops(interrupt)
    # Trainer and module refer to each other, so that weights and maps of the store would stay for
    # several runs.
    gc.collect()
    set_threads(omp_threads())


def main(job: Job, is_slurm: bool) -> int:
    """Works on a job until it is done, or is told to stop; returns the exit status.

    A launcher stops its workers by closing standard input. Slurm sends SIGUSR2 before the time
    limit and before a preemption; the task then goes back into the queue.
    """
    stop, stopped = threading.Event(), 0
    if not is_slurm:
        threading.Thread(target=tether, args=(stop.set,), daemon=True).start()
    _reset()
    try:
        work(job, stop)
    except KeyboardInterrupt as error:
        stopped = int([*error.args, signal.SIGTERM][0])
    on_stops(signal.SIG_IGN)  # there is nothing left to stop
    if is_slurm and stopped == signal.SIGUSR2:
        say("relpos: back into the queue")
        subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=True, timeout=120)
    return stopped and 128 + stopped


if __name__ == "__main__":
    import_quickly()
    try:
        sys.exit(main(Job.read(Path(sys.argv[1]), is_worker=True), "--slurm" in sys.argv))
    except RelposError as error:
        sys.exit(f"relpos: {error}")
