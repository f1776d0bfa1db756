"""A run is locked before it is touched. The operating system releases the lock when its holder
ends, however that happens."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from relpos.errors import RelposError, say
from relpos.files import LOCK, check_place, note_locked, refuse_links
from relpos.runs.run import read_record

MINUTE = 60.0
"""Seconds."""
NO_LOCKS = "its file system has no locks, which keep two processes from one run; name a folder on another one"


@contextmanager
def locked(
    folder: Path,
    wait: bool = True,
    meanwhile: Callable[[], object] = int,
) -> Iterator[bool]:
    """Locks the run in `folder` for this process; yields whether it did.

    The lock file is never deleted: after an unlink two processes could hold "the" lock.

    Args:
        folder: the run's folder; made where it is missing.
        wait: until the present holder is done; otherwise yields False at once where another process
            holds the run.
        meanwhile: is called once a minute as long as this process waits.

    Raises:
        RelposError: the folder cannot be made or written, or there is a link in it.
    """
    lock = FileLock(folder / LOCK)
    check_place(folder / LOCK)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Once for all that is written under the lock, also by other programs: nothing of a run is a
        # link that we have made.
        refuse_links(folder.iterdir())
        free = _acquire(lock)
    except OSError as error:
        raise RelposError(
            f"cannot make the run's folder {folder} ({error.strerror}): see RELPOS_RUNS"
        ) from error
    if not free:
        if not wait:
            yield False
            return
        say(f"relpos: waiting for {_holder(folder)} to finish {folder}")
        # Without a limit: a training takes days, and the system frees the lock of a holder that
        # dies.
        while not _acquire(lock, MINUTE):
            meanwhile()
    note_locked(folder, True)
    try:
        yield True
    finally:
        note_locked(folder, False)
        lock.release()


def is_locked(folder: Path) -> bool:
    """Whether a process somewhere is at work on the run in `folder`.

    The only way to know is to take its lock for a moment. If this process may not lock the folder,
    the run counts as locked: its record says `running`, and nothing speaks against it.
    """
    lock = FileLock(folder / LOCK)
    if not (folder / LOCK).exists():  # nobody has ever locked it; and asking makes no files
        return False
    try:
        free = _acquire(lock)
    except OSError:
        return True
    lock.release()
    return not free


def seen(state: str, folder: Path) -> str:
    """The state of a run for its observers: a run that is `running` in its record is interrupted if
    no process holds its lock."""
    # A killed process loses its lock, but cannot write its end into the record.
    if state == "running" and not is_locked(folder):
        return "interrupted"
    return state


def _acquire(lock: FileLock, seconds: float = 0) -> bool:
    """Whether this process has the lock now, or has it in so many seconds.

    Raises:
        OSError: the file system has no locks. The file that filelock makes instead outlives the
            process, and everybody waits for a dead one.
    """
    free = True
    try:
        with warnings.catch_warnings(action="ignore"):
            lock.acquire(timeout=seconds)
    except Timeout:
        free = False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise
        raise OSError(error.errno, NO_LOCKS) from error
    kind: type = type(lock)  # which filelock changes
    if issubclass(kind, SoftFileLock):
        lock.release()
        raise OSError(errno.ENOSYS, NO_LOCKS)
    return free


def _holder(folder: Path) -> str:
    """The process that is at work on the run in `folder`: its record has the start, which is
    written a moment after the lock is taken."""
    try:
        open_starts = [start for start in read_record(folder).starts if not start.get("ended")]
        start = open_starts[-1]
        return f"process {start['pid']} on {start['host']} (since {start['time']})"
    except (RelposError, LookupError):
        return "another process"
