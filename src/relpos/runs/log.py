"""`log.txt`: what a run prints, in its folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relpos.errors import RelposError
from relpos.files import opened
from relpos.readers import read_bytes

LOG = "log.txt"


@contextmanager
def logged(path: Path) -> Iterator[None]:
    """Appends standard output and standard error to `path`.

    The file descriptors are redirected, not `sys.stdout`, so that output of C libraries and child processes goes there too.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # What Python still held back was flushed above: it belongs to the terminal, not to this log.
    originals = os.dup(1), os.dup(2)
    with opened(path, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in enumerate(originals, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)


def last_lines(path: Path) -> list[str]:
    """The last five lines of a log that are not blank, from its last 8 KiB; none where there is no log."""
    try:
        text = read_bytes(path, end=8192).decode("utf-8", errors="replace")
    except RelposError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-5:]
