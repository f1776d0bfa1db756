"""GLUE's own tab-separated files, read strictly: split on tab and on line feed, quotes are ordinary characters, UTF-8 only.

A reader that takes quotes for delimiters would join lines and lose rows (169 lines of MRPC's training file have an odd `"`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relpos.data.tasks import Task
from relpos.errors import RelposError, nearest
from relpos.files import check_regular

# The diagnostic set belongs to no task's folder; the original download script has its own name for it.
_ELSEWHERE = {"ax": ("AX/test.tsv", "diagnostic/diagnostic.tsv")}


@dataclass(frozen=True)
class Table:
    """Rows of text fields under named columns, and the line of each in its source, for messages."""

    source: str
    header: tuple[str, ...]
    rows: list[list[str]]
    places: Sequence[int]  # line or row number of each row, from 1
    place: str = "line"
    skipped: int = 0  # rows left out because they were broken in two

    def where(self, row: int) -> str:
        return f"{self.source} {self.place} {self.places[row]}"

    def has(self, column: str) -> bool:
        return column in self.header

    def column(self, name: str) -> list[str]:
        """Raises: RelposError with the nearest name where there is no such column."""
        if name not in self.header:
            raise RelposError(f"{self.source}: no column {name!r}.{nearest(name, self.header)}")
        at = self.header.index(name)
        return [row[at] for row in self.rows]


@dataclass(frozen=True)
class TsvGlue:
    """A folder in GLUE's own layout: `CoLA/train.tsv`, `MNLI/dev_matched.tsv`, `AX/test.tsv`, …"""

    folder: Path

    def files(self, task: Task, split: str) -> list[Path]:
        """The names under which the file of this split may lie; the first is the usual one."""
        names = _ELSEWHERE.get(split, (f"{task.folder}/{split}.tsv",))
        return [self.folder / name for name in names]

    def has(self, task: Task, split: str) -> bool:
        return any(path.is_file() for path in self.files(task, split))

    def table(self, task: Task, split: str) -> Table:
        """Raises: RelposError naming what is missing, or the file and line at fault."""
        paths = self.files(task, split)
        for path in paths:
            if path.is_file():
                return read_table(path, task.headers.get(split), task.broken)
        if not self.folder.is_dir():
            raise RelposError(f"no GLUE folder {self.folder}")
        folders = [entry.name for entry in self.folder.iterdir() if entry.is_dir()]
        hint = "" if paths[0].parent.is_dir() else nearest(task.folder, folders)
        raise RelposError(f"no GLUE file {paths[0]}.{hint}")


def read_table(path: Path, header: Sequence[str] | None = None, broken: bool = False) -> Table:
    """One TSV file. `header` names the columns of a file that has no header line.

    Raises: RelposError naming file and line: unreadable, empty, no rows, not UTF-8, another number of columns.
    """
    lines = _lines(path)
    first = 1 if header is not None else 2
    names = tuple(header) if header is not None else tuple(lines[0].split("\t"))
    rows = [line.split("\t") for line in lines[first - 1 :]]
    if not rows:
        raise RelposError(f"{path}: a header and no rows")
    places = list(range(first, first + len(rows)))
    skipped = 0
    if broken:
        rows, places, skipped = _without_broken(rows, places, len(names))
    check_widths(path, rows, places, len(names), "the header has" if header is None else "there should be")
    return Table(str(path), names, rows, places, skipped=skipped)


def check_widths(path: Path, rows: list[list[str]], places: Sequence[int], width: int, owner: str = "the header has") -> None:
    """Raises: RelposError naming file and line of the first row that has another number of columns."""
    for row, place in zip(rows, places, strict=True):
        if len(row) != width:
            raise RelposError(f"{path} line {place}: {len(row)} column{'s' if len(row) != 1 else ''} where {owner} {width}")


def read_text(path: Path) -> str:
    """A file's text without the byte order mark.

    Raises: RelposError naming file and line: unreadable, not UTF-8, empty.
    """
    check_regular(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise RelposError(f"{path}: {error.strerror or error}") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # With a byte order mark the position is counted from the end of the mark; the count of lines stays the same.
        raise RelposError(f"{path} line {raw[: error.start].count(10) + 1}: not UTF-8") from error
    if not text.strip():
        raise RelposError(f"{path}: the file is empty")
    if "\0" in text:
        raise RelposError(f"{path} line {text[: text.index(chr(0))].count(chr(10)) + 1}: a NUL byte, which no text holds")
    return text


def _lines(path: Path) -> list[str]:
    """The lines of a file, without the end of the last one."""
    lines = read_text(path).removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


def _without_broken(rows: list[list[str]], places: list[int], width: int) -> tuple[list[list[str]], list[int], int]:
    """Leaves out each run of short lines that together make exactly one row; the official QQP files hold some.

    As the authors' loader and nyu-mll/glue do. Any other short line stays, and is refused by the caller.
    """
    kept: list[int] = []
    skipped = at = 0
    while at < len(rows):
        end, columns = at, 1
        while end < len(rows) and len(rows[end]) < width and columns < width:
            columns += len(rows[end]) - 1  # a line end inside a field makes two fields of one
            end += 1
        if end > at + 1 and columns == width:
            skipped += 1
            at = end
        else:
            kept.append(at)
            at += 1
    return [rows[i] for i in kept], [places[i] for i in kept], skipped
