"""`relpos status`: a line for each run below `$RELPOS_RUNS`, or how a table stands, from its folders
alone; `relpos status remove` deletes runs."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from rich.filesize import decimal
from rich.live import Live

from relpos.errors import RelposError, nearest, plural, printable, say
from relpos.launch.jobs import PLAN, Job, Standing, seen
from relpos.launch.progress import Picture, console
from relpos.ranges import Names, Positive
from relpos.readers import read_yaml
from relpos.runs.lock import is_locked, locked
from relpos.runs.run import VERSIONS, closure, read_record, runs_root
from relpos.runs.shelf import final, made_from, newest, run_folders, run_of, scores
from relpos.runs.table_file import FILE, runs_by_row, table_folder

SHOWN = ("heldout_loss", "tokens", "pieces")
"""Figures of which the first that a run has stands for it; else its first column."""
SPEED = {"real_tokens_per_second": "{:,.0f}", "mfu": "MFU {:.2f}"}
"""Figures of a log line → how they are shown."""
PLACES = ("corpus", "root", "texts", "seed")
"""Keys of `data` of which the first that is set says which text it is."""


@dataclass(frozen=True)
class Seen:
    """A run's folder.

    Args:
        folder: where it lies.
        record: of the run.
        data: the text that it, or what it reads, is made of.
        tokenizer: the name of its tokenizer's folder.
        size: bytes on disk.
        tables: those that use it.
        readers: the runs that read it.
    """

    folder: Path
    record: dict[str, Any]
    data: str
    tokenizer: str
    size: int
    tables: list[str]
    readers: list[str]

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def state(self) -> str:
        """As its table has it."""
        return seen(str(self.record.get("state", "damaged")), self.folder)

    @property
    def date(self) -> str:
        """When it was started last, in universal time."""
        starts = self.record.get("starts") or [{}]
        return str(starts[-1].get("time", ""))[:16].replace("T", " ")

    @property
    def step(self) -> str:
        """How many of how many steps it has done."""
        steps = (self.record.get("metrics") or {}).get("steps") or self.record.get("meaning", {}).get("steps")
        done = steps if self.record.get("state") == "finished" else newest(self.folder).get("step")
        return "" if steps is None else f"{done or 0:,}/{steps:,}"

    @property
    def figure(self) -> str:
        known = final(self.record)
        name = next((name for name in (*SHOWN, *scores(self.record)) if name in known), None)
        return f"{name} {known[name]:{',' if isinstance(known[name], int) else '.4g'}}" if name else ""

    @property
    def speed(self) -> dict[str, float]:
        """What its newest line about the speed of a pre-training says."""
        line = newest(self.folder, next(iter(SPEED)))
        return {key: line[key] for key in SPEED if isinstance(line.get(key), int | float)}

    @property
    def used_by(self) -> str:
        readers = [f"{len(self.readers)} of these runs"] if self.readers else []
        return ", ".join([*(f"table {table}" for table in self.tables), *readers])

    def cells(self) -> dict[str, str]:
        """Head of a column → what stands there."""
        return {
            "run": self.name,
            "state": self.state,
            "date": self.date,
            "data": self.data,
            "tokenizer": self.tokenizer,
            "step": self.step,
            "figure": self.figure,
            "tokens/s": " ".join(SPEED[key].format(value) for key, value in self.speed.items()),
            "on disk": decimal(self.size),
            "used by": self.used_by or "–",
        }

    def values(self) -> dict[str, Any]:
        """What `format=json` shows."""
        cells = self.cells()
        words = {key: cells[key] for key in ("run", "state", "date", "data", "tokenizer", "step")}
        return words | {
            "error": self.record.get("error"),
            "figures": final(self.record),
            "classes": (self.record.get("metrics") or {}).get("classes", {}),
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
    removed: Names | None,
    ask: bool,
) -> str:
    """Shows the runs there are, or those of a table, on a terminal again and again, or removes those
    that are named; returns the runs folder, or the table's. As JSON it returns the runs alone.

    Raises:
        RelposError: there is no such table, or an override is wrong; a name is that of no run, a run
            is under way, or there is nobody to answer the question.
    """
    if removed is not None:
        if table is not None:
            raise RelposError(f"table={table}: relpos status remove NAME takes runs, of whatever table")
        return _remove(removed, ask)
    if table is None and (rows is not None or overrides):
        raise RelposError("table must be given, as in: relpos status table=demo")
    if table is not None:
        name, job = _job(table, rows, overrides)
        if format == "text":
            return _watch(name, job, every)
        known = {run.folder: run.values() for run in look()}
        return _json(known.get(run.path, {"run": f"{run.stage}/{run.path.name}", "state": run.state}) for run in job.runs)
    if format == "json":
        return _json(run.values() for run in look())
    _show(look())
    return str(runs_root())


def _watch(name: str, job: Job, every: float) -> str:
    screen, standing = console(), Standing(job)
    standing.look()
    picture = Picture(standing, name)
    try:
        if not sys.stdout.isatty():
            screen.print(picture.whole())
        else:
            with Live(console=screen, auto_refresh=False) as live:
                live.update(picture.whole(), refresh=True)
                while standing.unsettled:
                    time.sleep(every)
                    standing.look()
                    picture.news()
                    live.update(picture.whole(), refresh=True)
    except KeyboardInterrupt:
        pass
    return str(runs_root() / "tables" / name)


def _job(name: str, rows: list[str] | None, overrides: Sequence[str]) -> tuple[str, Job]:
    """The table's name, and its newest launch, or a plan if rows or overrides are named or nothing was launched."""
    folder = table_folder(name)
    # What was launched may have had overrides that this command does not know.
    if rows is None and not overrides and (folder / PLAN).is_file():
        return folder.name, Job.read(folder / PLAN)
    from relpos.tables import experiment, plan  # loads torch

    table = experiment.load(name)
    return table.name, Job(plan.runs_of(plan.plan_table(table, rows, overrides)))


def _remove(names: Sequence[str], ask: bool) -> str:
    chosen = _named(names, look())
    if busy := next((run for run in chosen if is_locked(run.folder)), None):
        with locked(busy.folder, wait=False):  # which says so where it is the disk that refuses the lock
            pass
        raise RelposError(f"{busy.name}: a process is at work on it; stop that one first")
    _show(chosen)
    what = f"{plural(len(chosen), 'run')}, {decimal(sum(run.size for run in chosen))}"
    if ask and not _agreed(f"remove {what}, from {runs_root()}?"):
        say("relpos: nothing is removed")
        return str(runs_root())
    for run in chosen:
        with locked(run.folder, wait=False) as held:
            if not held:
                raise RelposError(f"{run.name}: another process has begun to work on it; it stays, and so do those after it")
            shutil.rmtree(run.folder)
    say(f"relpos: removed {what}")
    return str(runs_root())


def look() -> list[Seen]:
    """The runs there are, those that no table uses first, then by stage and name."""
    tables = _tables()
    records = {folder: _record(folder) for stage in VERSIONS for folder in run_folders(stage)}
    by_name = {folder.name: folder for folder in records}
    readers: dict[str, list[str]] = {}
    for folder, record in records.items():
        for needed in _inputs(record).values():
            readers.setdefault(needed, []).append(folder.name)
    texts: dict[Path, str] = {}

    def inputs(folder: Path) -> dict[str, Path]:  # by name: the folders may come from another machine
        return {name: by_name[needed] for name, needed in _inputs(records[folder]).items() if needed in by_name}

    def text(folder: Path) -> str:
        origin = made_from(folder, "store", inputs) or folder
        if origin not in texts:
            texts[origin] = _text(origin)
        return texts[origin]

    seen = []
    for folder, record in records.items():
        tokenizer = made_from(folder, "tokenizer", inputs)
        name = tokenizer.name if tokenizer and tokenizer != folder else ""
        users = tables.get(folder.name, []), readers.get(folder.name, [])
        seen.append(Seen(folder, record, text(folder), name, _size(folder), *users))
    return sorted(seen, key=lambda run: bool(run.tables))


def _inputs(record: Mapping[str, Any]) -> dict[str, str]:
    """Name of an input → the name of the run's folder."""
    return {name: run_of(Path(needed)).name for name, needed in (record.get("inputs") or {}).items()}


def _text(folder: Path) -> str:
    """The `data` of a run's configuration in a word or two, as `files /texts/wiki`; empty where it has none."""
    try:
        data = read_yaml(folder / "config.yaml").get("data") or {}
    except (RelposError, AttributeError):  # it has none yet, or a damaged one
        return ""
    if not isinstance(data, dict) or "_target_" not in data:
        return ""
    place = next((data[key] for key in PLACES if data.get(key) is not None), "")
    if isinstance(place, list):
        place = " ".join(str(part.get("id")) for part in place if isinstance(part, dict))
    return f"{str(data['_target_']).rpartition('.')[2].lower()} {place}".strip()


def _json(runs: Iterable[dict[str, Any]]) -> str:
    return json.dumps([*runs], indent=1, ensure_ascii=False)


def _tables() -> dict[str, list[str]]:
    """Name of a run's folder → the tables that show it or whose newest launch used it."""
    users: dict[str, list[str]] = {}
    for folder in sorted((runs_root() / "tables").glob("*/")):
        paths: set[Path] = set()
        # Apart: the one that is damaged hides nothing of the other.
        for read in (_shown, _planned):
            try:
                paths.update(read(folder))
            except RelposError as error:
                say(f"relpos: {error}; runs of this table may be named as used by none")
        for name in {run_of(path).name for path in paths}:
            users.setdefault(name, []).append(folder.name)
    return users


def _shown(table: Path) -> list[Path]:
    return [Path(run.path) for some in runs_by_row(table).values() for run in some] if (table / FILE).is_file() else []


def _planned(table: Path) -> list[Path]:
    return [run.path for run in closure(Job.read(table / PLAN).runs)] if (table / PLAN).is_file() else []


def _record(folder: Path) -> dict[str, Any]:
    try:
        return read_record(folder)
    except RelposError as error:  # it may be removed
        say(f"relpos: {error}")
        return {}


def _size(folder: Path) -> int:
    """Bytes of the files below a folder; a link counts as itself."""
    return sum(os.lstat(Path(place, name)).st_size for place, _, names in os.walk(folder) for name in names)


def _named(names: Sequence[str], seen: Sequence[Seen]) -> list[Seen]:
    for name in names:
        if not any(_is_named(run, name) for run in seen):
            raise RelposError(f"no run {name!r}.{nearest(name, (run.folder.name for run in seen))[:500]}")
    return [run for run in seen if any(_is_named(run, name) for name in names)]


def _is_named(run: Seen, name: str) -> bool:
    path = str(Path(name).absolute())  # as a shell completes it
    return fnmatchcase(str(run.folder), path) or any(fnmatchcase(known, name.rstrip("/")) for known in (run.folder.name, run.name))


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise RelposError(f"{question} Answer on a terminal, or add ask=false")
    say(f"relpos: {question} [y/N] ", end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _show(seen: Iterable[Seen]) -> None:
    rows = [run.cells() for run in seen]
    heads = rows[0] if rows else ("run", "state")
    lines = [list(heads), *(list(row.values()) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:  # not cut to the width of a terminal: names are copied
        print(printable("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()))
