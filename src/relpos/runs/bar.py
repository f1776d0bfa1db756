"""A progress bar for work that comes in portions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, where that is a terminal; yields a function to call with the size of each portion done."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(title, total=total)
        yield lambda portion: progress.advance(task, portion)
