"""The files of GLUE and SuperGLUE in their own layout. TSV is read strictly: split on tab and on line feed, quotes are ordinary
characters, UTF-8 only.

A reader that takes quotes for delimiters would join lines and lose rows (169 lines of MRPC's training file have an odd `"`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relpos.data.json_lines import json_table
from relpos.data.table import Table, check_widths, read_text
from relpos.data.tasks import Task
from relpos.errors import RelposError, nearest

# The diagnostic set belongs to no task's folder; the original download script has its own name for it.
_ELSEWHERE = {"ax": ("AX/test.tsv", "diagnostic/diagnostic.tsv")}


@dataclass(frozen=True)
class TsvGlue:
    """A folder in GLUE's own layout: `CoLA/train.tsv`, `MNLI/dev_matched.tsv`, `AX/test.tsv`, `BoolQ/train.jsonl`, …"""

    folder: Path

    def files(self, task: Task, split: str) -> list[Path]:
        """The names under which the file of this split may lie; the first is the usual one."""
        names = _ELSEWHERE.get(split, (f"{task.folder}/{split}{task.suffix}",))
        return [self.folder / name for name in names]

    def has(self, task: Task, split: str) -> bool:
        return any(path.is_file() for path in self.files(task, split))

    def table(self, task: Task, split: str) -> Table:
        """Raises: RelposError naming what is missing, or the file and line at fault."""
        paths = self.files(task, split)
        for path in paths:
            if path.is_file():
                if path.suffix == ".jsonl":
                    return json_table(path, task.needed(split), task.rows_of)
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


def _lines(path: Path) -> list[str]:
    """The lines of a file, without the end of the last one."""
    # splitlines would cut a sentence at U+2028, U+0085 and other characters that are text here.
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
