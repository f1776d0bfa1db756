"""How a table stands, as its launcher and `relpos status` show it: from the runs' folders alone, and not from the workers."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from relpos.errors import plural
from relpos.launch.jobs import WAITING, Standing
from relpos.progress import plain_console
from relpos.runs.cost import Estimate, clock, hardware, left_of
from relpos.runs.retries import failures
from relpos.runs.run import Run
from relpos.runs.shelf import LOG, final, newest, scores

SECONDS = 60.0
"""Seconds between two reports of the runs under way, where stderr is not a terminal."""
STATES = ("finished", "running", "interrupted", "failed", WAITING, "missing")
MOST_FAILED = 20
"""Failed runs that are named: as many as fit on a screen."""
WIDE = 200
"""Characters of a line where there is no terminal, which would say how wide it is."""


def console(stderr: bool = False) -> Console:
    """Where pictures are shown: as wide as the terminal, and without one wide enough for the names of runs."""
    stream = sys.stderr if stderr else sys.stdout
    return plain_console(stderr=stderr, highlight=False, width=None if stream.isatty() else WIDE)


class Picture:
    """Counts of a job's runs, a line for each row, the runs under way, and the runs that have failed.

    Args:
        standing: is read by whoever shows the picture.
        name: of the table.
    """

    def __init__(self, standing: Standing, name: str) -> None:
        self.standing, self.name, self.estimate = standing, name, Estimate()
        self.told = len(standing.settled)
        machine = hardware()
        for record in (run.record for run in standing.settled if run.stage != "given"):
            if record.get("hardware") == machine:  # what is done from now on counts whatever machine does it
                self.estimate.add(record)

    def news(self) -> list[Run]:
        """The runs that have been settled since the last call."""
        new = self.standing.settled[self.told :]
        self.told += len(new)
        for run in new:
            self.estimate.add(run.record)
        return new

    def left(self) -> str:
        """How long the table still takes, as `; about 2:05 left`; empty at its end, and where nothing tells."""
        at_work = {run.identity: (run.record, newest(run.path)) for run in self.standing.those("running")}
        left = self.estimate.left(self.standing.unsettled.values(), at_work)
        return f"; {left}" if left else ""

    def whole(self) -> RenderableType:
        """All of it."""
        counts = Counter(self.standing.states.values())
        head = ", ".join(f"{counts[state]:,} {state}" for state in STATES if counts[state])
        failed = self.standing.those("failed")[:MOST_FAILED]
        return Group(
            Text(f"{self.name}: {plural(len(self.standing.job.runs), 'run')}: {head}{self.left()}", style="bold"),
            self._rows(),
            *([self.under_way()] if self.standing.those("running") else []),
            *(Text(f"failed: {run.stage} {run.name}: {run.record.get('error')}", style="red") for run in failed),
        )

    def _rows(self) -> Table:
        table = _table("row", "pre-training", "fine-tuning", "failed", words=("row",))
        rows: dict[str, list[Run]] = {}
        for run in self.standing.job.runs:
            rows.setdefault(run.config.get("row") or run.stage, []).append(run)
        for row, runs in rows.items():
            finished = [self._finished([run for run in runs if (run.stage == "finetune") is tuning]) for tuning in (False, True)]
            failed = sum(self.standing.states[run.identity] == "failed" for run in runs)
            # As text: rich would take brackets in the name of a row for markup.
            table.add_row(Text(row), *finished, str(failed) if failed else "")
        return table

    def _finished(self, runs: list[Run]) -> str:
        return f"{sum(self.standing.states[run.identity] == 'finished' for run in runs)}/{len(runs)}" if runs else ""

    def under_way(self) -> Table:
        """A line for each run that some process executes, from its newest log line."""
        table = _table("under way", "step", "steps/s", "loss", "left", "where", words=("under way", "where"))
        for run in self.standing.those("running"):
            line, steps = newest(run.path), run.config.get("steps")
            start = (run.record.get("starts") or [{}])[-1]
            table.add_row(
                f"{run.stage} {run.name}",
                f"{line.get('step', 0):,}/{steps or '?'}" if line else "",
                f"{line['steps_per_second']:.2f}" if "steps_per_second" in line else "",
                next((f"{line[key]:.4g}" for key in ("loss", "heldout_loss") if key in line), ""),
                clock(seconds) if (seconds := left_of(run, line)) is not None else "",
                f"{start.get('host', '')}:{start.get('pid', '')}" if start.get("pid") != os.getpid() else "",
            )
        return table


def _table(*columns: str, words: tuple[str, ...]) -> Table:
    """A table without lines, whose columns of numbers stand on the right."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="left" if column in words else "right")
    return table


@contextmanager
def displayed(standing: Standing, name: str) -> Iterator[Callable[[], list[Run]]]:
    """Yields a function that prints on stderr a line for each run settled since its last call, and returns these runs; on a
    terminal it shows the picture, too, elsewhere now and then what is under way."""
    picture, screen, runs = Picture(standing, name), console(stderr=True), len(standing.job.runs)
    last_report = time.monotonic()
    # In a log file a picture that is drawn again would be thousands of lines.
    live = Live(console=screen, transient=True, auto_refresh=False) if sys.stderr.isatty() else None

    def show() -> list[Run]:
        nonlocal last_report
        settled = picture.news()
        for number, run in enumerate(settled, picture.told - len(settled) + 1):
            # As `Text`: in a string rich would take brackets of an error message for markup, and fail at some.
            screen.print(Text(f"[{number}/{runs}] {ending(run)}{picture.left()}"), soft_wrap=True)
        if live:
            live.update(picture.whole(), refresh=True)
        elif time.monotonic() - last_report > SECONDS and standing.those("running"):
            last_report = time.monotonic()
            screen.print(picture.under_way())
        return settled

    with live or nullcontext():
        screen.print(f"{picture.told} of {runs} runs are there", style="dim")
        yield show


def ending(run: Run) -> str:
    """One line about a settled run."""
    record = run.record
    if not (state := record.get("state")):
        return f"{run.stage} {run.name}: its folder {run.path} is gone"
    if state == "failed":
        return f"{run.stage} {run.name} failed: {record['error']}"
    shown = scores(record) or {key: value for key, value in final(record).items() if key == "perplexity"}
    figures = ", ".join(f"{key} {value:.4g}" for key, value in shown.items())
    tries = failures(record)
    before = f", after {tries} that failed: see {run.path / LOG}" if tries else ""
    return f"{run.stage} {run.name}  {figures}  ({record.get('seconds', 0):.0f} s){before}"
