"""What is shown on a terminal: text in columns, and progress bars on stderr, which disappear at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """The first column is aligned to the right, the others to the left; letters of double width count twice.

    >>> print(aligned([["0.5", "cat", "a cat"], ["-0.25", "dog", "a dog"]]))
        0.5  cat  a cat
      -0.25  dog  a dog
    """
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  "
        + "  ".join(
            " " * (width - cell_len(cell)) + cell if place == 0 else cell + " " * (width - cell_len(cell))
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


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


def reading(title: str, characters: int | None) -> AbstractContextManager[Callable[[float], None]]:
    """A bar for text that is read, in bytes and bytes per second; None where it is not known how many characters there are."""
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = "{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    return bar(title, characters, *columns)
