"""`python -m relpos.launch.worker JOB.json`: executes the runs of a job, one after another, until none is left to do.

Any number of workers may share a job, on any number of machines that see the folders: the claims keep them apart.
With `--tethered`, standard input is a pipe from the launcher; when it closes, the worker writes a checkpoint and ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relpos.errors import RelposError
from relpos.launch.jobs import Job, Standing
from relpos.process import STOPS, interrupt, tether
from relpos.runs.distributed import SHARED, place
from relpos.runs.execute import execute
from relpos.runs.lock import claim
from relpos.runs.run import Run

PAUSE = 0.2
"""Seconds between two looks at runs that other processes hold; longer where looking takes long."""
LONGEST = 10.0
"""Seconds that such a pause takes at most."""


def work(job: Job, stop: threading.Event, folder: Path | None = None) -> None:
    """Takes the first ready run that nobody holds, executes it, and looks again from the top.

    Where the job names the runs that are its own, others only say what is ready, and nobody waits for them.

    Args:
        job: the runs.
        stop: set from another thread to end it.
        folder: where a crew and its worker tell each other of runs, see `held` and `barred`.

    Raises:
        RelposError: runs are left that can be neither executed nor marked as failed; or this process is of no more use.
    """
    standing = Standing(job)
    while not stop.is_set():
        began = time.monotonic()
        waiting = False
        for run, _ in standing.walk():
            mine = job.own is None or run.identity in job.own
            waiting |= mine
            if mine and standing.is_ready(run) and not _is_barred(folder, run) and _attempt(run, standing, folder):
                break
        else:
            if not waiting or job.own is not None:
                _tell_what_is_impossible(standing)
                return
            stop.wait(max(PAUSE, min(LONGEST, 5 * (time.monotonic() - began))))


def _attempt(run: Run, standing: Standing, folder: Path | None) -> bool:
    """Whether something became of the run; False where another process holds it.

    A try that ends with an error leaves an entry among the run's failures. Where none can be written, the run is set aside.

    Raises:
        RelposError: other processes had a part in the run, and are elsewhere in it now.
    """
    _reset()
    before = _failures(run)
    try:
        with _noted(folder, run):
            execute(run, wait=False, log=True, forgiven=standing.job.forgiven(run))
    except (Exception, SystemExit) as error:  # the record says what happened, the run's log how; the other runs go on
        print(f"--- {run.path}", file=sys.stderr)
        traceback.print_exc()
        here = place() if run.stage in SHARED else None
        if not (here and here.rank) and not _is_told(run, error, before):  # of several processes the first one writes
            standing.set_aside(run)
            return True
        if here:  # what it says to the others would be taken for an answer to something else
            raise RelposError("a run of several processes has ended with an error: they cannot share another one") from error
    return run.state in ("finished", "failed")


def _failures(run: Run) -> int:
    return len(run.record.get("failures", []))


def _is_told(run: Run, error: BaseException, before: int) -> bool:
    """Sees to it that the record has a failure more than before the try, unless another process is at the run by now."""
    try:
        with claim(run.path, wait=False) as held:
            if held and _failures(run) <= before:
                run.fail(str(error).split("\n")[0] or type(error).__name__)
    except (OSError, RelposError):
        traceback.print_exc()
        return False
    return True


def _tell_what_is_impossible(standing: Standing) -> None:
    if standing.impossible:
        names = ", ".join(str(run.path) for run in standing.job.runs if run.identity in standing.impossible)
        raise RelposError(f"these runs can be neither executed nor marked as failed: {names}")


def held(folder: Path, pid: int) -> Path:
    """The file in which a worker notes the run that it is at; it stays when the worker is killed."""
    return folder / f"held-{pid}"


def barred(folder: Path, identity: str) -> Path:
    """While this file is there, no worker of the crew takes the run."""
    return folder / f"barred-{identity}"


@contextmanager
def _noted(folder: Path | None, run: Run) -> Iterator[None]:
    if folder is None:
        yield
        return
    note = held(folder, os.getpid())
    note.write_text(run.identity, encoding="utf-8")
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def _is_barred(folder: Path | None, run: Run) -> bool:
    return folder is not None and barred(folder, run.identity).exists()


def _reset() -> None:
    """What a run may have left behind in this process: signal handlers, and a number of threads."""
    for number in STOPS:
        signal.signal(number, interrupt)
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(int(threads))


def interrupted(job: Job) -> int | None:
    """Works on a job; the signal that ended it before its time. Ends the process with status 1 where the work cannot go on."""
    _reset()
    try:
        work(job, threading.Event())
    except KeyboardInterrupt as stop:
        return int(stop.args[0]) if stop.args else int(signal.SIGTERM)
    except RelposError as error:
        print(f"relpos: {error}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(1)  # threads of a broken group may keep the interpreter from ending
    return None


def main(argv: list[str]) -> int:
    """Works on the job; 130 where it was asked to stop, 1 where it cannot go on."""
    stop = threading.Event()
    status = 0
    _reset()
    if "--tethered" in argv:
        threading.Thread(target=tether, args=(stop.set,), daemon=True).start()
    try:
        work(Job.read(Path(argv[0])), stop, Path(argv[0]).parent)
    except KeyboardInterrupt:
        stop.set()
    except RelposError as error:
        print(f"relpos: {error}", file=sys.stderr)
        status = 1
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # there is nothing left to stop
    return 130 if stop.is_set() else status


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())  # classes from outside the package
    sys.exit(main(sys.argv[1:]))
