"""The rows of a task in one form, with checked labels: from the files of GLUE and SuperGLUE, the hub, or the user's own files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from relpos.data.glue_hub import HubGlue
from relpos.data.table import Table
from relpos.data.task_folders import OwnFiles, TsvGlue
from relpos.data.tasks import Task
from relpos.errors import RelposError, nearest

Location = str | Path | TsvGlue | HubGlue | OwnFiles


@dataclass(frozen=True)
class Rows:
    """The rows of one split, as columns."""

    sentence_a: list[str]
    sentence_b: list[str] | None  # None: a task of single sentences
    labels: list[int] | list[float] | None  # None: a test split
    indices: list[int]  # what a submission calls the row
    groups: list[int] | None = None  # of rows that the metric judges together, the same number; None: it judges each by itself

    def __len__(self) -> int:
        return len(self.sentence_a)


def has_split(location: Location, task: Task, split: str) -> bool:
    """Whether the split exists; a missing test split is no mistake."""
    return _reader(location).has(task, split)


def read(location: Location, task: Task, split: str) -> Rows:
    """Reads one split: `train`, a value of `task.dev` or of `task.test`.

    Raises: RelposError of one line, naming the file and line: a missing or empty file, a missing column, a ragged
        row, a label outside the set, a score that is no number or out of range, text that is not UTF-8.
    """
    table = _reader(location).table(task, split)
    sentences = [table.column(name) for name in task.sentences]
    labels = None
    # A test file may have labels all the same, as PAWS has.
    if split in task.labelled or table.has(task.label):
        words = table.column(task.label)
        labels = _classes(table, words, task.labels) if task.labels is not None else _scores(table, words, task)
    return Rows(
        sentence_a=sentences[0],
        sentence_b=sentences[1] if len(sentences) > 1 else None,
        labels=labels,
        groups=_numbered(table.column(task.group)) if task.group else None,
        indices=list(range(len(table.rows))) if split in task.labelled else _indices(table, task),
    )


def _numbered(names: list[str]) -> list[int]:
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return [numbers[name] for name in names]


def _reader(location: Location) -> TsvGlue | HubGlue | OwnFiles:
    return TsvGlue(Path(location)) if isinstance(location, str | Path) else location


def _classes(table: Table, words: list[str], known: Sequence[str]) -> list[int]:
    numbers = {word: number for number, word in enumerate(known)}
    for row, word in enumerate(words):
        if word not in numbers:
            # Without a close match `nearest` would list the classes sorted; here they stand in their own order.
            close = nearest(word, known)
            tail = close if "Did you mean" in close else f" Known: {', '.join(known)}."
            raise RelposError(f"{table.where(row)}: label {_shown(word)} is outside the set.{tail}")
    return [numbers[word] for word in words]


def _scores(table: Table, words: list[str], task: Task) -> list[float]:
    low, high = task.range or (float("-inf"), float("inf"))
    scores = []
    for row, word in enumerate(words):
        try:
            score = float(word)
        except ValueError:
            raise RelposError(f"{table.where(row)}: score {_shown(word)} is not a number") from None
        if not isfinite(score):
            raise RelposError(f"{table.where(row)}: score {_shown(word)} is not a number")
        if not low <= score <= high:
            raise RelposError(f"{table.where(row)}: score {_shown(word)} is outside {low:g} to {high:g}")
        scores.append(score)
    return scores


def _indices(table: Table, task: Task) -> list[int]:
    """The numbers of a test split's rows: its column `index` (QQP: `id`), unless it is one of the texts, or else their order."""
    for name in ("index", "id"):
        if table.has(name) and name not in task.sentences:
            words = table.column(name)
            for row, word in enumerate(words):
                # isdigit alone accepts ², which int refuses.
                if not (word.isascii() and word.isdigit()):
                    raise RelposError(f"{table.where(row)}: {name} {_shown(word)} is not a row number")
            return [int(word) for word in words]
    return list(range(len(table.rows)))


def _shown(word: str) -> str:
    return repr(word if len(word) <= 40 else word[:37] + "...")
