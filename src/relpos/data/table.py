"""Rows of text fields under named columns, read from TSV, CSV or JSON lines, which may be a
stranger's."""

from __future__ import annotations

import csv
import io
import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from relpos.data import textfile
from relpos.errors import RelposError, nearest, plural
from relpos.readers import ANY, decoded, read_bytes

NUL = "a NUL byte, which no text holds"
Fields = dict[str, Any]
"""An object of a line: column → value."""


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


def check_widths(
    path: Path,
    rows: list[list[str]],
    places: Sequence[int],
    width: int,
    owner: str = "the header has",
) -> None:
    """Raises: RelposError naming file and line of the first row that has another number of
    columns."""
    for row, place in zip(rows, places, strict=True):
        if len(row) != width:
            raise RelposError(
                f"{path} line {place}: {plural(len(row), 'column')} where {owner} {width}"
            )


def read_text(path: Path) -> str:
    """A file's text without the byte order mark.

    Raises: RelposError naming file and line: unreadable, not UTF-8, empty.
    """
    text = decoded(read_bytes(path, ANY).removeprefix(BOM_UTF8), path)
    if not text.strip():
        raise RelposError(f"{path}: the file is empty")
    if "\0" in text:
        raise RelposError(f"{path} line {text[: text.index(chr(0))].count(chr(10)) + 1}: {NUL}")
    return text


def read_table(path: Path, header: Sequence[str] | None = None, broken: bool = False) -> TextTable:
    """A TSV file, read strictly: split on tab and on line feed, quotes are ordinary characters.

    A reader that takes quotes for delimiters would join lines and lose rows (169 lines of MRPC's
    training file have an odd `"`).

    Args:
        header: names the columns of a file that has no header line.
        broken: leave out rows that a line end inside a field has broken in two.

    Raises: RelposError naming file and line: unreadable, empty, no rows, not UTF-8, another number
        of columns.
    """
    # splitlines would cut a sentence at U+2028, U+0085 and other characters that are text here.
    lines = [line.removesuffix("\r") for line in read_text(path).removesuffix("\n").split("\n")]
    if header is None:
        first, names, owner = 2, tuple(lines[0].split("\t")), "the header has"
    else:
        first, names, owner = 1, tuple(header), "there should be"
    rows = [line.split("\t") for line in lines[first - 1 :]]
    places = list(range(first, first + len(rows)))
    if broken:  # as the authors' loader and nyu-mll/glue do
        whole = [at for at, row in enumerate(rows) if len(row) >= len(names)]
        rows, places = [rows[at] for at in whole], [places[at] for at in whole]
    if not rows:
        raise RelposError(f"{path}: a header and no rows")
    check_widths(path, rows, places, len(names), owner)
    return TextTable(str(path), names, rows, places)


def csv_table(path: Path) -> TextTable:
    """A CSV file with a header line; quotes enclose fields, so that a text may hold commas, quotes
    and line ends.

    Raises:
        RelposError: names file and line: not CSV, no rows, another number of columns.
    """
    rows, places, line = [], [], 1
    text = read_text(path)
    # Strict: otherwise a quote that is never closed would make one field of the rest of the file,
    #     without an error.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    limit = csv.field_size_limit(len(text))  # 131,072 characters, where nobody has set another
    try:
        for row in reader:
            if row:  # an empty line is no row
                rows.append(row)
                places.append(line)
            # a row may take several lines: the next one starts after them
            line = reader.line_num + 1
    except csv.Error as error:
        raise RelposError(f"{path} line {line}: not CSV: {error}") from None
    finally:
        csv.field_size_limit(limit)
    check_commas(str(path), rows[0])
    if len(rows) < 2:
        raise RelposError(f"{path}: a header and no rows")
    check_widths(path, rows[1:], places[1:], len(rows[0]))
    return TextTable(str(path), tuple(rows[0]), rows[1:], places[1:])


def check_commas(source: str, header: Sequence[str]) -> None:
    """Raises: RelposError where the header of a CSV file is one field with other separators than
    commas in it."""
    if len(header) == 1 and (mark := next((mark for mark in ";\t|" if mark in header[0]), None)):
        raise RelposError(
            f"{source} line 1: its columns stand between {mark!r}; write them "
            f"between commas, or as JSONL"
        )


def check_head(path: Path, text: str, column: str) -> None:
    """Refuses a CSV file that begins with this text, not a blank one, if pandas would read other
    columns than those of its header, or this column stands twice in it.

    Raises:
        RelposError: see `check_commas`; or the first row has more columns than the header, of which
            pandas takes the first one for the name of the row and each column for the one before
            it.
    """
    limit = csv.field_size_limit(len(text) + 1)
    try:
        header, *rows = islice(filter(None, csv.reader(io.StringIO(text, newline=""))), 2)
    finally:
        csv.field_size_limit(limit)
    check_commas(str(path), header)
    if header.count(column) > 1:
        raise RelposError(f"{path}: two columns {column!r}")
    # the text may break off within a row, which then has fewer
    if rows and len(rows[0]) > len(header):
        check_widths(path, rows, [2], len(header))


def json_table(path: Path, columns: Sequence[str]) -> TextTable:
    """These columns of the rows in a file.

    Raises:
        RelposError: names file and line: see `objects`; a column is missing, or holds neither a
            text nor a number.
    """
    rows, places = [], []
    for number, fields in objects(path):
        rows.append([_field(f"{path} line {number}", fields, column) for column in columns])
        places.append(number)
    if not rows:
        raise RelposError(f"{path}: no rows")
    return TextTable(str(path), tuple(columns), rows, places)


def objects(path: Path) -> Iterator[tuple[int, Fields]]:
    """The objects with the numbers of their lines; empty lines are left out.

    Raises:
        RelposError: names file and line: not UTF-8, empty, not an object, or a key is given twice.
    """
    number = 0
    for number, line in textfile.lines(path):
        if "\0" in line:
            raise RelposError(f"{path} line {number}: {NUL}")
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
    if not number:
        raise RelposError(f"{path}: the file is empty")


def _unique(pairs: list[tuple[str, Any]]) -> Fields:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"{twice!r} is given twice")
    return fields


def inside(fields: object, key: str, kind: type, place: str) -> Any:
    """The value of a key, where it is of this type; `place` begins the message.

    Raises:
        RelposError: names file and line.
    """
    value = None
    if isinstance(fields, dict):
        value = fields.get(key)
    # To isinstance a truth value is an int, but in a file it is no number.
    if (
        not isinstance(value, kind)
        or isinstance(value, bool)
        or (isinstance(value, str) and not value.strip())
    ):
        raise RelposError(f"{place}: no {KINDS[kind]} under {key!r}")
    return value


KINDS = {str: "text", int: "number", list: "list", dict: "object"}
"""Type → its name in messages."""


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
