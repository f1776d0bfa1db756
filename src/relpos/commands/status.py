"""`relpos status`: a line for each run below `$RELPOS_RUNS`, or how a table stands, from its
folders alone."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.filesize import decimal
from rich.live import Live

from relpos.errors import RelposError, printable, say
from relpos.launch.jobs import PLAN, Job, Standing
from relpos.launch.progress import Picture
from relpos.progress import console
from relpos.ranges import Names, Positive
from relpos.runs.lock import seen
from relpos.runs.run import Record, closure, read_record, runs_root
from relpos.runs.shelf import newest, run_folders, run_of
from relpos.runs.table_file import FILE, runs_by_row, table_folder

SHOWN = ("heldout_loss", "tokens", "pieces")
"""Figures of which a run shows the first that it has; without any it shows its first column."""
SPEED = {"real_tokens_per_second": "{:,.0f}", "mfu": "MFU {:.2f}"}
"""Figure of a log line → its format."""


@dataclass(frozen=True)
class Entry:
    """An entry of the list: a run's folder.

    Args:
        folder: its path.
        record: the record of the run.
        size: bytes on disk.
        tables: the tables that use it.
        readers: the runs that read it.
    """

    folder: Path
    record: Record
    size: int
    tables: list[str]
    readers: list[str]

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def step(self) -> str:
        """The number of steps done, and of all: `5/100`."""
        done = self.record.figures.get("steps")
        steps = done or self.record.meaning.get("steps")
        if steps is None:
            return ""
        return f"{done or newest(self.folder).get('step', 0):,}/{steps:,}"

    @property
    def figure(self) -> str:
        figures = self.record.figures
        for name in (*SHOWN, *self.record.columns):
            if name in figures:
                form = "," if isinstance(figures[name], int) else ".4g"
                return f"{name} {figures[name]:{form}}"
        return ""

    @property
    def speed(self) -> dict[str, float]:
        """The figures of the newest log line about the speed of a pre-training."""
        line = newest(self.folder, next(iter(SPEED)))
        return {key: line[key] for key in SPEED if isinstance(line.get(key), int | float)}

    def cells(self) -> dict[str, str]:
        """Head of a column → text of the cell. The state is the one that tables show; the date is
        the time of the last start, in universal time."""
        start = (self.record.starts or [{}])[-1]
        users = [f"table {table}" for table in self.tables]
        if self.readers:
            users.append(f"{len(self.readers)} of these runs")
        return {
            "run": self.name,
            "state": seen(self.record.state, self.folder),
            "date": str(start.get("time", ""))[:16].replace("T", " "),
            "step": self.step,
            "figure": self.figure,
            "tokens/s": " ".join(SPEED[key].format(value) for key, value in self.speed.items()),
            "on disk": decimal(self.size),
            "used by": ", ".join(users) or "–",
        }

    def values(self) -> dict[str, object]:
        """The values that `format=json` shows."""
        cells = self.cells()
        words = {key: cells[key] for key in ("run", "state", "date", "step")}
        return words | {
            "error": self.record.error,
            "figures": self.record.figures,
            "classes": self.record.metrics.get("classes", {}),
            "speed": self.speed,
            "bytes": self.size,
            "tables": self.tables,
            "readers": self.readers,
        }


def status(
    table: str | None,
    rows: Names | None,
    overrides: Sequence[str],
    every: Positive,
    format: Literal["text", "json"],
) -> str:
    """Shows all runs or those of a table (on a terminal again and again).

    Returns:
        the runs folder, or the table's; with `format=json` the runs.

    Raises:
        RelposError: there is no such table, or an override is wrong.
    """
    if table is None and (rows is not None or overrides):
        raise RelposError("table must be given, as in: relpos status table=demo")
    if table is not None:
        name, job = _job(table, rows, overrides)
        if format == "text":
            return _watch(name, job, every)
    elif format == "text":
        _show(look())
        return str(runs_root())
    entries = {run.name: run.values() for run in look()}
    if table is not None:
        begun, entries = entries, {}
        for run in job.runs:
            name = f"{run.stage}/{run.path.name}"
            entries[name] = begun.get(name, {"run": name, "state": run.state})
    return json.dumps([*entries.values()], indent=1, ensure_ascii=False)


def _watch(name: str, job: Job, every: float) -> str:
    screen, standing = console(), Standing(job)
    standing.look()
    picture = Picture(standing, name)
    if not sys.stdout.isatty():
        screen.print(picture.whole())
    else:
        drawn = Live(picture.whole(), console=screen, auto_refresh=False)
        with suppress(KeyboardInterrupt), drawn:
            while standing.unsettled:
                time.sleep(every)
                standing.look()
                picture.news()
                drawn.update(picture.whole(), refresh=True)
    return str(runs_root() / "tables" / name)


def _job(name: str, rows: list[str] | None, overrides: Sequence[str]) -> tuple[str, Job]:
    """The table's name, and its newest launch, or a plan if rows or overrides are named or nothing
    was launched."""
    folder = table_folder(name)
    # The launch may have had overrides that this command does not have.
    if rows is None and not overrides and (folder / PLAN).is_file():
        return folder.name, Job.read(folder / PLAN)
    from relpos.tables import experiment, measurements, plan  # loads torch

    table = experiment.load(name)
    planned = plan.plan_table(table, rows, overrides)
    instrument = measurements.instrument(table, overrides, planned)
    return table.name, Job(plan.runs_of(planned, measurements.runs_of(planned, instrument)))


def look() -> list[Entry]:
    """All runs: those that no table uses first, then by stage and name."""
    tables = _tables()
    records = {folder: _record(folder) for folder in run_folders("*")}
    # by name: the folders may come from another machine
    readers = defaultdict[str, list[str]](list)
    for folder, record in records.items():
        for place in record.inputs.values():
            readers[run_of(Path(place)).name].append(folder.name)
    entries = [
        Entry(folder, record, _size(folder), tables[folder.name], readers[folder.name])
        for folder, record in records.items()
    ]
    return sorted(entries, key=lambda run: bool(run.tables))


def _tables() -> defaultdict[str, list[str]]:
    """Name of a run's folder → the tables that show it, or whose newest launch used it."""
    users = defaultdict[str, list[str]](list)
    for folder in sorted((runs_root() / "tables").glob("*/")):
        paths: set[Path] = set()
        # A damaged file must not hide the runs of the other.
        for file, read in ((FILE, _shown), (PLAN, _planned)):
            try:
                if (folder / file).is_file():
                    paths.update(read(folder))
            except RelposError as error:
                say(f"relpos: {error}; runs of this table may be named as used by none")
        for name in {run_of(path).name for path in paths}:
            users[name].append(folder.name)
    return users


def _shown(table: Path) -> list[Path]:
    return [Path(run.path) for runs in runs_by_row(table).values() for run in runs]


def _planned(table: Path) -> list[Path]:
    return [run.path for run in closure(Job.read(table / PLAN).runs)]


def _record(folder: Path) -> Record:
    try:
        return read_record(folder)
    except RelposError as error:  # shown all the same, so that its folder can be deleted
        say(f"relpos: {error}")
        return Record(state="damaged")


def _size(folder: Path) -> int:
    """Bytes of the files below a folder; a link counts as itself."""
    return sum(
        os.lstat(Path(place, name)).st_size for place, _, names in os.walk(folder) for name in names
    )


def _show(entries: Iterable[Entry]) -> None:
    rows = [run.cells() for run in entries]
    heads = rows[0] if rows else ("run", "state")
    lines = [list(heads), *(list(row.values()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:  # not cut to the width of a terminal, so that names can be copied
        print(printable("  ".join(map(str.ljust, line, widths)).rstrip()))
