"""What is shown on a terminal: text in columns, and progress bars on stderr, which disappear at the
end.

Where stderr is no terminal, what a bar would show becomes a line every `SECONDS`, so that no long
work is silent.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any, TypeVar

from relpos.errors import printable, say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

Item = TypeVar("Item")
Advance = Callable[[float], None]
"""Is called with the size of each portion done."""

SECONDS = 30.0
"""Between two lines about work under way, where stderr is no terminal."""
WIDE = 200
"""Characters of a line where there is no terminal with a width of its own."""


def plain_console(**options: Any) -> Console:
    """A console of rich that spells control characters out, which a stranger's file may have."""
    from rich.console import Console
    from rich.segment import Segment

    class Spelling(Console):
        def render(self, *arguments: Any, **options: Any) -> Iterator[Segment]:
            for segment in super().render(*arguments, **options):
                if not segment.control:
                    segment = Segment(printable(segment.text), segment.style)
                yield segment

    return Spelling(**options)


def console(stderr: bool = False) -> Console:
    """The console for tables: as wide as the terminal or, without one, wide enough for the names of
    runs."""
    screen = plain_console(stderr=stderr, highlight=False)
    if not screen.file.isatty():
        screen.width = WIDE
    return screen


def display(*columns: str | ProgressColumn) -> Progress:
    """A display of bars, with these columns of rich or with rich's usual ones."""
    from rich.progress import Progress

    # stdout has the result, for whoever reads it in a pipe.
    return Progress(
        *columns,
        console=plain_console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


@contextmanager
def bar(title: str, total: float | None) -> Iterator[Advance]:
    """Yields the function `Advance`; `total` is None where the sum of the portions is not known."""
    with display() as progress:
        task = progress.add_task(title, total=total)
        # A process of a pool keeps what it prints until its item is done: then such lines are no
        # news.
        if not progress.disable or isinstance(sys.stderr, StringIO):
            yield lambda portion: progress.advance(task, portion)
        else:
            with _lines(title, total) as advance:
                yield advance


@contextmanager
def _lines(title: str, total: float | None) -> Iterator[Advance]:
    """`bar` as lines; from a thread, because a single portion of the work may take minutes."""
    amount = 0.0
    began = time.monotonic()
    ended = threading.Event()
    of_total = ""
    if total:
        of_total = f" of {total:,.0f}"

    def advance(portion: float) -> None:
        nonlocal amount
        amount += portion

    def report() -> None:
        while not ended.wait(SECONDS):
            say(f"relpos: {title}: {amount:,.0f}{of_total} after {time.monotonic() - began:.0f} s")

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield advance
    finally:
        ended.set()
        reporter.join()


def tracked(items: Sequence[Item], title: str) -> Iterator[Item]:
    """The items one after another, with a bar that says how many are done."""
    with bar(title, len(items)) as advance:
        for item in items:
            yield item
            advance(1)
