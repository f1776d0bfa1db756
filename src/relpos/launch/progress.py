"""The state of a table's runs, as its launcher and `relpos status` show it; it is read from the
runs' folders, not from workers."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from relpos.errors import plural
from relpos.launch.jobs import Standing
from relpos.progress import SECONDS, console
from relpos.runs.cost import Estimate, clock, hardware, left_of
from relpos.runs.retries import failures
from relpos.runs.run import Run
from relpos.runs.shelf import LOG, newest

MOST_FAILED = 20
"""The most failed runs that are named, so that they fit on a screen."""


class Picture:
    """Counts of a job's runs, a line for each row, the runs under way, and the runs that have
    failed.

    Args:
        standing: the state of the job's runs, which the caller keeps up to date.
        name: of the table.
    """

    def __init__(self, standing: Standing, name: str) -> None:
        self.standing, self.name = standing, name
        self.estimate = Estimate(standing.job.operations)
        self.reported = len(standing.settled)
        machine = hardware()
        for record in (run.record for run in standing.settled):
            # runs that finish later count whatever machine made them
            if record.hardware == machine:
                self.estimate.add(record)

    def news(self) -> list[Run]:
        """The runs that have been settled since the last call."""
        new = self.standing.settled[self.reported :]
        self.reported += len(new)
        for run in new:
            self.estimate.add(run.record)
        return new

    def left(self) -> str:
        """The time that the table still takes, as `; about 2:05 left`; empty if it is unknown, and
        at the end."""
        at_work = self.standing.in_state("running")
        remaining = self.estimate.left(self.standing.unsettled.values(), at_work)
        return remaining and f"; {remaining}"

    def whole(self) -> RenderableType:
        """The whole picture."""
        counts = Counter(self.standing.states.values())
        head = ", ".join(f"{count:,} {state}" for state, count in counts.items())
        runs = self.standing.job.runs
        title = f"{self.name}: {plural(len(runs), 'run')}: {head}{self.left()}"
        parts: list[RenderableType] = [Text(title, style="bold"), self._rows()]
        if self.standing.in_state("running"):
            parts.append(self.under_way())
        for run in self.standing.in_state("failed")[:MOST_FAILED]:
            parts.append(Text(ending(run), style="red"))
        return Group(*parts)

    def _rows(self) -> Table:
        table = _table("row", "pre-training", "fine-tuning", "failed")
        rows: dict[str, tuple[list[str], list[str]]] = {}
        for run in self.standing.job.runs:
            states = rows.setdefault(run.config.row or run.stage, ([], []))
            states[run.is_tuning].append(self.standing.states[run.identity])
        for row, states in rows.items():
            failed = [*states[0], *states[1]].count("failed")
            # As `Text`, because rich would take brackets in the name of a row for markup.
            table.add_row(Text(row), *map(_finished, states), str(failed or ""))
        return table

    def under_way(self) -> Table:
        """A line for each run that a process executes, from its newest log line."""
        table = _table("under way", "step", "steps/s", "loss", "left", "where")
        for run in self.standing.in_state("running"):
            line = newest(run.path)
            step = rate = loss = left = ""
            if line:
                step = f"{line.get('step', 0):,}/{run.config.steps or '?'}"
            if "steps_per_second" in line:
                rate = f"{line['steps_per_second']:.2f}"
            for key in ("heldout_loss", "loss"):
                if key in line:
                    loss = f"{line[key]:.4g}"
            if (seconds := left_of(run, line)) is not None:
                left = clock(seconds)
            start = (run.record.starts or [{}])[-1]
            place = f"{start.get('host', '')}:{start.get('pid', '')}"
            table.add_row(f"{run.stage} {run.name}", step, rate, loss, left, place)
        return table


def _finished(states: Sequence[str]) -> str:
    if not states:
        return ""
    return f"{states.count('finished')}/{len(states)}"


def _table(name: str, *columns: str) -> Table:
    """A table without lines; all columns but that of names are aligned to the right."""
    table = Table(name, box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right")
    return table


@contextmanager
def displayed(standing: Standing, name: str) -> Iterator[Callable[[], list[Run]]]:
    """Yields a function that prints on stderr a line for each run settled since its last call, and
    returns these runs.

    On a terminal it also shows the picture; elsewhere it shows the runs under way every `SECONDS`.
    """
    picture = Picture(standing, name)
    screen = console(stderr=True)
    runs = len(standing.job.runs)
    last_report = time.monotonic()
    # Without a terminal, pictures drawn again and again would fill a log file.
    live = Live(console=screen, transient=True, auto_refresh=False) if sys.stderr.isatty() else None

    def show() -> list[Run]:
        nonlocal last_report
        settled = picture.news()
        for number, run in enumerate(settled, picture.reported - len(settled) + 1):
            # As `Text`, because rich would take brackets of an error message for markup, and fail
            # at some.
            screen.print(Text(f"[{number}/{runs}] {ending(run)}{picture.left()}"), soft_wrap=True)
        if live:
            live.update(picture.whole(), refresh=True)
        elif time.monotonic() - last_report > SECONDS and standing.in_state("running"):
            last_report = time.monotonic()
            screen.print(picture.under_way())
        return settled

    with live or nullcontext():
        screen.print(f"{picture.reported} of {runs} runs are there", style="dim")
        yield show


def ending(run: Run) -> str:
    """One line about a settled run."""
    record = run.record
    if not record:
        return f"{run.stage} {run.name}: its folder {run.path} is gone"
    if record.state == "failed":
        return f"{run.stage} {run.name} failed: {record.error}"
    numbers, before = record.figures, ""
    names = (*record.columns, "perplexity")
    figures = ", ".join(f"{name} {numbers[name]:.4g}" for name in names if name in numbers)
    if tries := failures(record):
        before = f", after {tries} that failed: see {run.path / LOG}"
    return f"{run.stage} {run.name}  {figures}  ({record.seconds:.0f} s){before}"
