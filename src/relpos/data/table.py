"""Rows of text fields under named columns, and the text of the files that they are read from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relpos.errors import RelposError, nearest
from relpos.readers import ANY, read_bytes


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


def check_widths(path: Path, rows: list[list[str]], places: Sequence[int], width: int, owner: str = "the header has") -> None:
    """Raises: RelposError naming file and line of the first row that has another number of columns."""
    for row, place in zip(rows, places, strict=True):
        if len(row) != width:
            raise RelposError(f"{path} line {place}: {len(row)} column{'s' if len(row) != 1 else ''} where {owner} {width}")


def read_text(path: Path) -> str:
    """A file's text without the byte order mark.

    Raises: RelposError naming file and line: unreadable, not UTF-8, empty.
    """
    raw = read_bytes(path, ANY)
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
