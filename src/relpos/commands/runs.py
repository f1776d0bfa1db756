"""`relpos runs`: a line for each run below `$RELPOS_RUNS`, and `relpos runs remove`, which deletes some."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from relpos.errors import RelposError, nearest, plural, printable, say
from relpos.launch.jobs import PLAN, Job, seen
from relpos.ranges import Names
from relpos.runs.lock import is_locked, locked
from relpos.runs.run import VERSIONS, closure, read_record, runs_root
from relpos.runs.shelf import final, run_folders, run_of, scores
from relpos.runs.table_file import FILE, runs_by_row

SHOWN = ("heldout_loss", "tokens", "pieces")
"""Figures of which the first that a run has stands for it; else its first column."""


@dataclass(frozen=True)
class Seen:
    """A run's folder: its record, bytes on disk, the tables that use it, and the runs that read it."""

    folder: Path
    record: dict[str, Any]
    size: int
    tables: list[str]
    readers: list[str]

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def state(self) -> str:
        """As `relpos status` has it."""
        return seen(str(self.record.get("state", "damaged")), self.folder)

    @property
    def figure(self) -> str:
        known = final(self.record)
        name = next((name for name in (*SHOWN, *scores(self.record)) if name in known), None)
        return f"{name} {known[name]:{',' if isinstance(known[name], int) else '.4g'}}" if name else ""

    @property
    def used_by(self) -> str:
        return ", ".join(
            [*(f"table {table}" for table in self.tables), *([f"{len(self.readers)} of these runs"] if self.readers else [])]
        )


def runs(removed: Names | None, ask: bool) -> str:
    """Lists the runs, or removes those that are named; returns `$RELPOS_RUNS`.

    Raises:
        RelposError: a name is that of no run, a run is under way, or there is nobody to answer the question.
    """
    seen = look()
    if removed is None:
        _show(seen)
        return str(runs_root())
    chosen = _named(removed, seen)
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
    readers: dict[str, list[str]] = {}
    for folder, record in records.items():
        for needed in record.get("inputs", {}).values():
            readers.setdefault(run_of(Path(needed)).name, []).append(folder.name)
    seen = [
        Seen(folder, record, _size(folder), tables.get(folder.name, []), readers.get(folder.name, []))
        for folder, record in records.items()
    ]
    return sorted(seen, key=lambda run: bool(run.tables))


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
    except RelposError:  # damaged: what it was is unknown, and it may be removed
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
    lines = [("run", "state", "figure", "on disk", "used by")]
    lines += [(run.name, run.state, run.figure, decimal(run.size), run.used_by or "–") for run in seen]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:  # not cut to the width of a terminal: names are copied
        print(printable("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()))
