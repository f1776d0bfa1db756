"""A run is claimed before it is touched. The lock is the kernel's: it dies with its holder, however that ends."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def claim(folder: Path, wait: bool = True) -> Iterator[bool]:
    """Holds the run in `folder` for this process.

    The lock file is never deleted: after an unlink two processes could hold "the" lock.

    Args:
        folder: the run's folder; made where it is missing.
        wait: until the present holder is done; otherwise yields False at once where the run is held.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock, holder = FileLock(folder / "claim.lock"), folder / "claim.json"
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not wait:
            yield False
            return
        print(f"relpos: waiting for {_describe(holder)} to finish {folder}", file=sys.stderr)
        lock.acquire()
    try:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        holder.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now}), encoding="utf-8")
        yield True
    finally:
        lock.release()


def is_held(folder: Path) -> bool:
    """Whether a process somewhere is at work on the run in `folder`.

    Its lock is tried for a moment. Nothing is written: `claim.json` goes on naming who held it last. Where the folder is not ours
    to lock, its record is taken at its word.
    """
    lock = FileLock(folder / "claim.lock")
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        return True
    lock.release()
    return False


def _describe(holder: Path) -> str:
    try:
        content = json.loads(holder.read_text(encoding="utf-8"))
        return f"process {content['pid']} on {content['host']} (since {content['since']})"
    except (OSError, ValueError, KeyError):
        return "another process"
