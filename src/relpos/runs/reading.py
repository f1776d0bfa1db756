"""A progress bar on stderr for reading text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn


@contextmanager
def reading(title: str, size: int | None) -> Iterator[Callable[[int], None]]:
    """Yields a function that moves the bar on by a number of characters.

    Args:
        title: shown before the bar.
        size: about how many characters there are to read; None where that is not known.
    """
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task(title, total=size)
        yield lambda portion: progress.advance(bar, portion)
