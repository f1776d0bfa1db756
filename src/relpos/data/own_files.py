"""A folder with a task of the user's own: `train.*`, `dev.*` and perhaps `test.*`, as TSV, CSV or JSON lines.

.tsv     a header line, fields between tabs, quotes are ordinary characters (as in GLUE's files)
.csv     a header line, fields between commas, quotes enclose fields, so that a text may hold commas, quotes and line ends
.jsonl   an object on each line: {"premise": "…", "hypothesis": "…", "label": "…"}
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from relpos.data.filehash import Described, described
from relpos.data.glue_tsv import read_table
from relpos.data.json_lines import json_table
from relpos.data.table import Table, check_widths, read_text
from relpos.data.tasks import Task
from relpos.errors import RelposError, nearest

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class OwnFiles:
    """The files in `folder`; `relpos.data.glue.read` reads their splits."""

    folder: Path

    def file(self, split: str) -> Path | None:
        """The file of a split; None where there is none.

        Raises:
            RelposError: there are several, of different formats.
        """
        files = [path for suffix in READERS if (path := self.folder / f"{split}{suffix}").is_file()]
        if len(files) > 1:
            raise RelposError(f"{self.folder}: both {files[0].name} and {files[1].name}; which of them is the {split} file?")
        return files[0] if files else None

    def identity(self) -> list[Described]:
        """Name, size and SHA-256 of the files that are read."""
        return described([path for split in SPLITS if (path := self.file(split))], self.folder)

    def has(self, task: Task, split: str) -> bool:
        """Whether there is a file of this split."""
        return self.file(split) is not None

    def table(self, task: Task, split: str) -> Table:
        """The columns of a split that the task reads: its texts and, but for the test file, its label.

        Raises:
            RelposError: names the file, and the line at fault.
        """
        path = self.file(split)
        if path is None:
            if not self.folder.is_dir():
                raise RelposError(f"task.folder: there is no folder {self.folder}")
            raise RelposError(f"task.folder: no {split}.tsv, {split}.csv or {split}.jsonl in {self.folder}")
        return READERS[path.suffix](path, task.needed(split))


def _tsv(path: Path, columns: Sequence[str]) -> Table:
    return _only(read_table(path), columns)


def _csv(path: Path, columns: Sequence[str]) -> Table:
    rows, places, line = [], [], 1
    text = read_text(path)
    # Strict: otherwise a quote that is never closed would make one field of the rest of the file, without an error.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    limit = csv.field_size_limit(len(text))  # 131,072 characters, where nobody has set another
    try:
        for row in reader:
            if row:  # an empty line is no row
                rows.append(row)
                places.append(line)
            line = reader.line_num + 1  # a row may take several lines: the next one starts after them
    except csv.Error as error:
        raise RelposError(f"{path} line {line}: not CSV: {error}") from None
    finally:
        csv.field_size_limit(limit)
    if len(rows) < 2:
        raise RelposError(f"{path}: a header and no rows")
    check_widths(path, rows[1:], places[1:], len(rows[0]))
    return _only(Table(str(path), tuple(rows[0]), rows[1:], places[1:]), columns)


def _only(table: Table, columns: Sequence[str]) -> Table:
    """These columns of a table with a header line; what other columns hold, such as an id that is no number, is not checked.

    Raises:
        RelposError: a column is missing, or two have its name.
    """
    for column in columns:
        if column not in table.header:
            raise RelposError(f"{table.source} line 1: no column {column!r}.{nearest(column, table.header)}")
        if table.header.count(column) > 1:
            raise RelposError(f"{table.source} line 1: two columns {column!r}")
    rows = [list(row) for row in zip(*(table.column(column) for column in columns), strict=True)]
    return Table(table.source, tuple(columns), rows, table.places)


READERS: dict[str, Callable[[Path, Sequence[str]], Table]] = {".tsv": _tsv, ".csv": _csv, ".jsonl": json_table}
