"""JSON lines, which may be a stranger's: an object on each line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from relpos.data.table import Table, read_text
from relpos.errors import RelposError, nearest

Fields = dict[str, Any]
Rows = Callable[[Fields, str], Iterator[Fields]]
"""An object and its file and line → the rows that it stands for, with values by column."""


def objects(path: Path) -> Iterator[tuple[int, Fields]]:
    """The objects with the numbers of their lines; empty lines are left out.

    Raises:
        RelposError: names file and line: not UTF-8, empty, or not an object.
    """
    # Not splitlines: it cuts at U+0085 and U+2028, which JSON allows inside a text.
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            # Only an escape makes a surrogate, for UTF-8 is read strictly; to check every line would take longer than to parse it.
            if "\\u" in line:
                json.dumps(fields, ensure_ascii=False).encode()  # half a surrogate pair is JSON, and no tokenizer takes it
        except (ValueError, RecursionError) as error:
            raise RelposError(f"{path} line {number}: not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise RelposError(f'{path} line {number}: an object {{"column": …}} is expected')
        yield number, fields


def json_table(path: Path, columns: Sequence[str], rows_of: Rows = lambda fields, _: iter([fields])) -> Table:
    """These columns of the rows in a file.

    Raises:
        RelposError: names file and line: see `objects`; a column is missing, or holds neither a text nor a number.
    """
    rows, places = [], []
    for number, fields in objects(path):
        where = f"{path} line {number}"
        for row in rows_of(fields, where):
            rows.append([_field(where, row, column) for column in columns])
            places.append(number)
    if not rows:
        raise RelposError(f"{path}: no rows")
    return Table(str(path), tuple(columns), rows, places)


def inside(fields: object, key: str, kind: type, where: str) -> Any:
    """The value of a key, where it is of this type.

    Raises:
        RelposError: names file and line.
    """
    value = fields.get(key) if isinstance(fields, dict) else None
    # To isinstance a truth value is an int, but in a file it is no number.
    if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, str) and not value.strip()):
        raise RelposError(f"{where}: no {KINDS[kind]} under {key!r}")
    return value


KINDS = {str: "text", int: "number", list: "list", dict: "object"}
"""Type → what it is called."""


def _field(where: str, fields: Fields, column: str) -> str:
    """A text as it is, a number or a truth value as JSON spells it.

    Raises:
        RelposError: there is no such field, or it holds neither.
    """
    if column not in fields:
        raise RelposError(f"{where}: no column {column!r}.{nearest(column, fields)}")
    value = fields[column]
    if value is None or isinstance(value, list | dict):
        raise RelposError(f"{where}: column {column!r} holds {json.dumps(value)[:40]}, a text or a number is expected")
    return value if isinstance(value, str) else json.dumps(value)
