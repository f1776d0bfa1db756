"""What the launcher of a table shows on stderr: a line for each run that is settled, and what is under way."""

from __future__ import annotations

import sys
import time

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.text import Text

from relpos.launch.jobs import Standing
from relpos.progress import plain_console
from relpos.runs.cost import Estimate
from relpos.runs.retries import failures
from relpos.runs.run import Run
from relpos.runs.shelf import final, newest, scores

SECONDS = 60.0
"""Seconds between two reports of the runs under way, where stderr is not a terminal."""


class Display:
    """Shows the progress that the runs' folders tell; knows nothing of the workers."""

    def __init__(self, standing: Standing) -> None:
        self.job, self.standing = standing.job, standing
        self.console = plain_console(stderr=True, highlight=False)
        columns = "{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        self.progress = Progress(*columns, console=self.console)
        self.bar = self.progress.add_task("runs", total=len(self.job.runs))
        self.announced = set(standing.finished)
        self.estimate = Estimate()
        self.last_report = time.monotonic()
        # In a log file a line that moves would be thousands of lines.
        self.live = Live(console=self.console, transient=True, auto_refresh=False) if sys.stderr.isatty() else None

    def __enter__(self) -> Display:
        if self.live:
            self.live.start()
        self.console.print(f"{len(self.announced)} of {len(self.job.runs)} runs are there", style="dim")
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self.live:
            self.live.stop()

    def show(self) -> list[Run]:
        """Prints a line for each run settled since the last call, and shows the runs under way; returns the settled runs."""
        new = (self.standing.finished | self.standing.failed) - self.announced
        settled = [run for run in self.job.runs if run.identity in new] if new else []
        for run in settled:
            self.announced.add(run.identity)
            self.estimate.add(run.record)
            # As `Text`: in a string rich would take brackets of an error message for markup, and fail at some.
            said = f"[{len(self.announced)}/{len(self.job.runs)}] {ending(run)}{self._left()}"
            self.console.print(Text(said), soft_wrap=True)
        if self.live:
            self.progress.update(self.bar, completed=len(self.announced), description=f"runs{self._left()}")
            self.live.update(Group(*self._under_way(), self.progress), refresh=True)
        elif time.monotonic() - self.last_report > SECONDS:
            self.last_report = time.monotonic()
            for line in self._under_way():
                self.console.print(line, soft_wrap=True)
        return settled

    def _left(self) -> str:
        """How long the table still takes; empty at its end, and where nothing tells."""
        at_work = {run.identity: (run.record, newest(run.path)) for run in self.standing.running}
        left = self.estimate.left(self.standing.unsettled.values(), at_work)
        return f", {left}" if left else ""

    def _under_way(self) -> list[Text]:
        runs = [Text(f"  {under_way(run)}", style="cyan") for run in self.standing.running]
        return [*runs, Text(f"  {left.lstrip(', ')}")] if runs and (left := self._left()) else runs


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
    before = f", after {tries} that failed: see {run.path / 'log.txt'}" if tries else ""
    return f"{run.stage} {run.name}  {figures}  ({record.get('seconds', 0):.0f} s){before}"


def under_way(run: Run) -> str:
    """One line about a run that some process executes: step, speed and loss from its newest log line."""
    line = newest(run.path)
    steps = run.config.get("steps") or "?"
    loss = next((f"loss {line[key]:.4g}" for key in ("loss", "heldout_loss") if key in line), "")
    speed = f"{line['steps_per_second']:.1f} steps/s" if "steps_per_second" in line else ""
    step = f"step {line['step']}/{steps}" if line else ""
    return "  ".join(word for word in (run.stage, run.name, step, speed, loss) if word)
