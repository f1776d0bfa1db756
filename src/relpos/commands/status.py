"""`relpos status`: how a table stands, from its folders alone; on a terminal it is shown again until all runs are settled."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from relpos.launch.jobs import Job
from relpos.progress import plain_console
from relpos.ranges import Names, Positive
from relpos.runs.cost import Estimate, clock, left_of
from relpos.runs.lock import is_locked
from relpos.runs.run import Run, runs_root
from relpos.runs.shelf import newest

WAITING = "waiting for a failed run"
SETTLED = ("finished", "failed", WAITING)
STATES = ("finished", "running", "interrupted", "failed", WAITING, "missing")


def status(table: str, rows: Names | None, overrides: Sequence[str], every: Positive) -> str:
    """Shows the table's runs, on a terminal again and again; returns the table's folder.

    Raises:
        RelposError: there is no such table, or an override is wrong.
    """

    name, runs = _runs(table, rows, overrides)
    console, estimate = plain_console(highlight=False), Estimate()
    try:
        if not sys.stdout.isatty():
            console.print(picture(name, look(runs), estimate), soft_wrap=True)
        else:
            with Live(console=console, auto_refresh=False) as live:
                while True:
                    seen = look(runs)
                    live.update(picture(name, seen, estimate), refresh=True)
                    if all(entry.state in SETTLED for entry in seen):
                        break
                    time.sleep(every)
    except KeyboardInterrupt:
        pass
    return str(runs_root() / "tables" / name)


def _runs(name: str, rows: list[str] | None, overrides: Sequence[str]) -> tuple[str, list[Run]]:
    """The table's name, and the runs of its newest launch, or of a plan if rows or overrides are named or nothing was launched."""
    from relpos.tables import experiment, plan

    table = experiment.load(name)
    launched = runs_root() / "tables" / table.name / "plan.json"
    # What was launched may have had overrides that this command does not know.
    if rows is None and not overrides and launched.is_file():
        return table.name, Job.read(launched).runs
    return table.name, plan.runs_of(plan.plan_table(table, rows, overrides))


@dataclass(frozen=True)
class Seen:
    """A run at one moment; `line` is its newest log line while it is under way."""

    run: Run
    state: str
    record: dict[str, Any]
    line: dict[str, Any]


def look(runs: list[Run]) -> list[Seen]:
    """Reads the records of the runs, which have inputs before the runs that need them.

    A run whose record says `running` while no process holds its lock is interrupted. A run with a failed input, at any depth, waits
    for that one.
    """
    result = []
    fruitless: set[str] = set()  # failed runs, and those that need one
    for run in runs:
        # A network that the user has named is made by nobody.
        record = {} if run.stage == "given" else run.record
        state = "finished" if run.stage == "given" else record.get("state", "missing")
        # A process that is killed cannot write its end: the lock is what goes with it.
        if state == "running" and not is_locked(run.path):
            state = "interrupted"
        if state in ("missing", "interrupted") and any(needed.identity in fruitless for needed in run.inputs.values()):
            state = WAITING
        if state in ("failed", WAITING):
            fruitless.add(run.identity)
        result.append(Seen(run, state, record, newest(run.path) if state == "running" else {}))
    return result


def picture(name: str, seen: list[Seen], estimate: Estimate) -> RenderableType:
    """Counts of the runs, a line for each row, the runs under way, the runs that have failed."""
    counts = Counter(entry.state for entry in seen)
    head = ", ".join(f"{counts[state]:,} {state}" for state in STATES if counts[state])
    parts: list[RenderableType] = [Text(f"{name}: {len(seen):,} runs: {head}{_left(seen, estimate)}", style="bold"), _rows(seen)]
    running = [entry for entry in seen if entry.state == "running"]
    if running:
        parts.append(_under_way(running))
    # As many as fit on a screen; the counts above have all.
    for entry in [entry for entry in seen if entry.state == "failed"][:20]:
        parts.append(Text(f"failed: {entry.run.stage} {entry.run.name}: {entry.record.get('error')}", style="red"))
    return Group(*parts)


def _rows(seen: list[Seen]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("row", "pre-training", "fine-tuning", "failed"):
        table.add_column(column, justify="left" if column == "row" else "right")
    rows: dict[str, list[Seen]] = {}
    for entry in seen:
        rows.setdefault(entry.run.config.get("row") or entry.run.stage, []).append(entry)
    for row, entries in rows.items():
        shares = [_share([entry for entry in entries if (entry.run.stage == "finetune") is tuning]) for tuning in (False, True)]
        failed = sum(entry.state == "failed" for entry in entries)
        # As text: rich would take brackets in the name of a row for markup.
        table.add_row(Text(row), *shares, str(failed) if failed else "")
    return table


def _share(entries: list[Seen]) -> str:
    return f"{sum(entry.state == 'finished' for entry in entries)}/{len(entries)}" if entries else ""


def _under_way(running: list[Seen]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("under way", "step", "steps/s", "loss", "left", "where"):
        table.add_column(column, justify="left" if column in ("under way", "where") else "right")
    for entry in running:
        line, steps = entry.line, entry.run.config.get("steps")
        start = (entry.record.get("starts") or [{}])[-1]
        table.add_row(
            f"{entry.run.stage} {entry.run.name}",
            f"{line.get('step', 0):,}/{steps or '?'}" if line else "",
            f"{line['steps_per_second']:.2f}" if "steps_per_second" in line else "",
            next((f"{line[key]:.4g}" for key in ("loss", "heldout_loss") if key in line), ""),
            clock(seconds) if (seconds := left_of(entry.run, line)) is not None else "",
            f"{start.get('host', '')}:{start.get('pid', '')}" if start.get("pid") != os.getpid() else "",
        )
    return table


def _left(seen: list[Seen], estimate: Estimate) -> str:
    """About how long all runs take by as many processes as are at work; empty if nothing tells."""
    unsettled = [entry.run for entry in seen if entry.state not in SETTLED]
    if not unsettled:
        return ""
    for entry in seen:
        estimate.add(entry.record)
    left = estimate.left(unsettled, {entry.run.identity: (entry.record, entry.line) for entry in seen if entry.state == "running"})
    return f"; {left}" if left else ""
