"""The folders with the files of tasks: GLUE and SuperGLUE in their own layout, and tasks of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from relpos.data.filehash import Described, described
from relpos.data.table import Table, csv_table, json_table, only, read_table
from relpos.data.tasks import Task
from relpos.errors import RelposError, nearest

SPLITS = ("train", "dev", "test")
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


@dataclass(frozen=True)
class OwnFiles:
    """A folder with a task of the user's own: `train.*`, `dev.*` and perhaps `test.*`.

    .tsv     a header line, fields between tabs, quotes are ordinary characters (as in GLUE's files)
    .csv     a header line, fields between commas, quotes enclose fields, so that a text may hold commas, quotes and line ends
    .jsonl   an object on each line: {"premise": "…", "hypothesis": "…", "label": "…"}
    """

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


READERS: dict[str, Callable[[Path, Sequence[str]], Table]] = {
    ".tsv": lambda path, columns: only(read_table(path), columns),
    ".csv": csv_table,
    ".jsonl": json_table,
}
