"""Progress bars on stderr. They show nothing where stderr is not a terminal, and disappear at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from relpos.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

Item = TypeVar("Item")


def plain_console(**more: Any) -> Console:
    """A console of rich on which control characters of a text are spelled out, as a stranger's file may have them."""
    from rich.console import Console
    from rich.segment import Segment

    class Spelling(Console):
        def render(self, *what: Any, **options: Any) -> Iterator[Segment]:
            for segment in super().render(*what, **options):
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

    return Spelling(**more)


def display(*columns: str | ProgressColumn) -> Progress:
    """A display of bars, with these columns of rich or with rich's usual ones."""
    from rich.progress import Progress

    columns = columns or Progress.get_default_columns()
    # stdout has the result, for whoever reads it in a pipe.
    return Progress(*columns, console=plain_console(stderr=True), transient=True, disable=not sys.stderr.isatty())


@contextmanager
def bar(title: str, total: float | None, *columns: str | ProgressColumn) -> Iterator[Callable[[float], None]]:
    """Yields a function to call with the size of each portion done; `total` is None where their sum is not known."""
    with display(*columns) as progress:
        task = progress.add_task(title, total=total)
        yield lambda portion: progress.advance(task, portion)


def tracked(items: Sequence[Item], title: str) -> Iterator[Item]:
    """The items one after another, with a bar that says how many are done."""
    with bar(title, len(items)) as advance:
        for item in items:
            yield item
            advance(1)


@contextmanager
def reading(title: str, characters: int | None) -> Iterator[Callable[[int], None]]:
    """A bar for text that is read, in bytes and bytes per second; None where it is not known how many characters there are."""
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = "{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with bar(title, characters, *columns) as advance:
        yield advance
