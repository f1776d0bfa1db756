"""Rows of text fields under named columns, read from TSV, CSV or JSON lines, which may be a
stranger's."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from relpos.data import textfile
from relpos.errors import RelposError, nearest, plural

Fields = dict[str, object]
"""An object of a line: column → value."""
Row = tuple[int, list[str]]
"""The number of a row's first line, and its fields."""


@dataclass(frozen=True)
class TextTable:
    """Rows of text fields under named columns, and the line of each in its source, for messages."""

    source: str
    header: tuple[str, ...]
    rows: list[list[str]]
    places: Sequence[int]  # line or row number of each row, from 1
    place: str = "line"

    def where(self, row: int) -> str:
        return f"{self.source} {self.place} {self.places[row]}"

    def column(self, name: str) -> list[str]:
        """Raises: RelposError with the nearest name where there is no such column, or where there
        are two."""
        if name not in self.header:
            raise RelposError(f"{self.source}: no column {name!r}.{nearest(name, self.header)}")
        if self.header.count(name) > 1:
            raise RelposError(f"{self.source}: two columns {name!r}")
        at = self.header.index(name)
        return [row[at] for row in self.rows]


def read_table(path: Path, header: Sequence[str] | None = None, broken: bool = False) -> TextTable:
    """A TSV file, read strictly: split on tab and on line feed, quotes are ordinary characters.

    A reader that takes quotes for delimiters would join lines and lose rows (169 lines of MRPC's
    training file have an odd `"`).

    Args:
        header: names the columns of a file that has no header line.
        broken: leave out rows that a line end inside a field has broken in two.

    Raises: RelposError naming file and line: see `textfile.lines`; no rows, another number of
        columns.
    """
    rows = ((number, line.split("\t")) for number, line in textfile.lines(path))
    owner = "there should be"
    if header is None:
        (_, header), owner = next(rows), "the header has"
    width = len(header)
    if broken:  # as the authors' loader and nyu-mll/glue do
        rows = (row for row in rows if len(row[1]) >= width)
    return _table(path, header, _of_width(path, rows, width, owner))


def csv_table(path: Path) -> TextTable:
    """A CSV file, see `csv_rows`.

    Raises:
        RelposError: there are no rows.
    """
    rows = csv_rows(path)
    _, header = next(rows)
    return _table(path, header, rows)


def _table(path: Path, header: Sequence[str], rows: Iterable[Row]) -> TextTable:
    numbered = list(rows)
    if not numbered:
        raise RelposError(f"{path}: a header and no rows")
    fields, lines = [row for _, row in numbered], [number for number, _ in numbered]
    return TextTable(str(path), tuple(header), fields, lines)


def _of_width(
    path: Path,
    rows: Iterable[Row],
    width: int,
    owner: str = "the header has",
) -> Iterator[Row]:
    """Raises: RelposError naming file and line of the first row that has another number of
    columns."""
    for number, row in rows:
        if len(row) != width:
            raise RelposError(
                f"{path} line {number}: {plural(len(row), 'column')} where {owner} {width}"
            )
        yield number, row


def csv_rows(path: Path) -> Iterator[Row]:
    """The rows of a CSV file, its header first; quotes enclose fields, so that a text may hold
    commas, quotes and line ends.

    Raises:
        RelposError: names file and line: see `textfile.lines`; not CSV, other separators than
            commas, another number of columns.
    """
    rows = _parsed(path)
    _, header = first = next(rows)
    if len(header) == 1 and (mark := next((mark for mark in ";\t|" if mark in header[0]), None)):
        raise RelposError(
            f"{path} line 1: its columns stand between {mark!r}; write them "
            f"between commas, or as JSONL"
        )
    yield first
    yield from _of_width(path, rows, len(header))


def _parsed(path: Path) -> Iterator[Row]:
    # 131,072 characters for the whole process, where nobody has set another limit
    limit = csv.field_size_limit(textfile.LONGEST)
    line = 1
    # Strict: otherwise a quote that is never closed would make one field of the rest of the file,
    # without an error.
    reader = csv.reader((f"{text}\n" for _, text in textfile.lines(path)), strict=True)
    try:
        for row in reader:
            if row:  # an empty line is no row
                yield line, row
            # a row may take several lines: the next one starts after them
            line = reader.line_num + 1
    except csv.Error as error:
        raise RelposError(f"{path} line {line}: not CSV: {error}") from None
    finally:
        csv.field_size_limit(limit)


def json_table(path: Path, columns: Sequence[str]) -> TextTable:
    """These columns of the rows in a file.

    Raises:
        RelposError: names file and line: see `objects`; a column is missing, or holds neither a
            text nor a number.
    """
    rows = [
        (number, [_field(f"{path} line {number}", fields, column) for column in columns])
        for number, fields in objects(path)
    ]
    return _table(path, columns, rows)


def objects(path: Path) -> Iterator[tuple[int, Fields]]:
    """The objects with the numbers of their lines; empty lines are left out.

    Raises:
        RelposError: names file and line: see `textfile.lines`; not an object, or a key is given
            twice.
    """
    for number, line in textfile.lines(path):
        if not line.strip():
            continue
        try:
            fields = json.loads(line, object_pairs_hook=_unique)
            # Only an escape makes a surrogate, for UTF-8 is read strictly; to check every line
            # would take longer than to parse it.
            if "\\u" in line:
                # half a surrogate pair is JSON, and no tokenizer takes it
                json.dumps(fields, ensure_ascii=False).encode()
        except RecursionError:
            raise RelposError(f"{path} line {number}: not JSON: nested too deep") from None
        except ValueError as error:
            raise RelposError(f"{path} line {number}: not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise RelposError(f'{path} line {number}: an object {{"column": …}} is expected')
        yield number, fields


def _unique(pairs: list[tuple[str, object]]) -> Fields:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"{key!r} is given twice")
    return fields


def _field(place: str, fields: Fields, column: str) -> str:
    """A text as it is, a number or a truth value as JSON spells it."""
    if column not in fields:
        raise RelposError(f"{place}: no column {column!r}.{nearest(column, fields)}")
    value = fields[column]
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, list | dict):
        raise RelposError(
            f"{place}: column {column!r} holds {json.dumps(value)[:40]}, a text or a "
            f"number is expected"
        )
    return json.dumps(value)
