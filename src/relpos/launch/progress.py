"""How a table stands, as its launcher and `relpos status` show it: from the runs' folders alone, and not from the workers."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from relpos.errors import plural
from relpos.launch.jobs import WAITING, Standing
from relpos.progress import plain_console
from relpos.runs.cost import Estimate, clock, left_of
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


class Display:
    """Shows on stderr a line for each settled run; and on a terminal the picture, elsewhere now and then what is under way."""

    def __init__(self, standing: Standing, name: str) -> None:
        self.standing, self.picture = standing, Picture(standing, name)
        self.console = console(stderr=True)
        self.last_report = time.monotonic()
        # In a log file a picture that is drawn again would be thousands of lines.
        self.live = Live(console=self.console, transient=True, auto_refresh=False) if sys.stderr.isatty() else None

    def __enter__(self) -> Display:
        if self.live:
            self.live.start()
        self.console.print(f"{self.picture.told} of {len(self.standing.job.runs)} runs are there", style="dim")
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self.live:
            self.live.stop()

    def show(self) -> list[Run]:
        """Prints a line for each run settled since the last call, and shows the runs under way; returns the settled runs."""
        settled = self.picture.news()
        for number, run in enumerate(settled, self.picture.told - len(settled) + 1):
            # As `Text`: in a string rich would take brackets of an error message for markup, and fail at some.
            said = f"[{number}/{len(self.standing.job.runs)}] {ending(run)}{self.picture.left()}"
            self.console.print(Text(said), soft_wrap=True)
        if self.live:
            self.live.update(self.picture.whole(), refresh=True)
        elif time.monotonic() - self.last_report > SECONDS and self.standing.those("running"):
            self.last_report = time.monotonic()
            self.console.print(self.picture.under_way())
        return settled


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
