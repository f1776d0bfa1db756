"""The rows of a task in one form, with checked labels: from the files of GLUE, the hub, or the
user's own files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from pathlib import Path

from relpos.data.filehash import Described, described
from relpos.data.table import TextTable, csv_table, json_table, read_table
from relpos.data.tasks import Task
from relpos.errors import RelposError, from_library, nearest

SPLITS = ("train", "dev", "test")
# The diagnostic set belongs to no task's folder, and on the hub it is a configuration of its own.
# The original download script has another name for it.
IN_FOLDER = {"ax": ("AX/test.tsv", "diagnostic/diagnostic.tsv")}
ON_HUB = {"ax": ("ax", "test")}
NAMED = {
    "cola": ("unacceptable", "acceptable"),
    "sst2": ("negative", "positive"),
    "mrpc": ("not_equivalent", "equivalent"),
    "qqp": ("not_duplicate", "duplicate"),
    "wnli": ("not_entailment", "entailment"),
}
"""What nyu-mll/glue calls the classes of tasks whose files have numbers."""


@dataclass(frozen=True)
class TsvGlue:
    """A folder in GLUE's own layout: `CoLA/train.tsv`, `MNLI/dev_matched.tsv`, `AX/test.tsv`, …"""

    folder: Path

    def places(self, task: Task, split: str) -> list[Path]:
        """Where the file of this split may lie; the first is the usual one."""
        names = IN_FOLDER.get(split, (f"{task.folder}/{split}.tsv",))
        return [self.folder / name for name in names]

    def has(self, task: Task, split: str) -> bool:
        return any(map(Path.is_file, self.places(task, split)))

    def table(self, task: Task, split: str) -> TextTable:
        """Raises: RelposError naming what is missing, or the file and line at fault."""
        places = self.places(task, split)
        path = next(filter(Path.is_file, places), None)
        if path is None:
            raise RelposError(self.missing(task, places))
        if path.suffix == ".jsonl":
            return json_table(path, task.needed(split))
        if path.suffix == ".csv":
            return csv_table(path)
        return read_table(path, task.headers.get(split), task.broken)

    def missing(self, task: Task, places: list[Path]) -> str:
        """The message where none of these files exists."""
        if not self.folder.is_dir():
            return f"no GLUE folder {self.folder}"
        hint = ""
        if not places[0].parent.is_dir():
            folders = [entry.name for entry in self.folder.iterdir() if entry.is_dir()]
            hint = nearest(task.folder, folders)
        return f"no GLUE file {places[0]}.{hint}"


@dataclass(frozen=True)
class OwnFiles(TsvGlue):
    """A folder with a task of the user's own: `train.*`, `dev.*` and perhaps `test.*`.

    .tsv     a header line, fields between tabs, quotes are ordinary characters (as in GLUE's files)
    .csv     a header line, fields between commas, quotes enclose fields, so that a text may hold commas, quotes and line ends
    .jsonl   an object on each line: {"premise": "…", "hypothesis": "…", "label": "…"}
    """

    def places(self, task: Task | None, split: str) -> list[Path]:
        """Raises: RelposError: there are files of several formats."""
        places = [self.folder / f"{split}{suffix}" for suffix in (".tsv", ".csv", ".jsonl")]
        names = [path.name for path in places if path.is_file()]
        if len(names) > 1:
            raise RelposError(
                f"{self.folder}: both {names[0]} and {names[1]}; which of them is the {split} file?"
            )
        return places

    def identity(self) -> list[Described]:
        """Name, size and SHA-256 of the files that are read."""
        places = [path for split in SPLITS for path in self.places(None, split)]
        return described(filter(Path.is_file, places), self.folder)

    def missing(self, task: Task, places: list[Path]) -> str:
        if not self.folder.is_dir():
            return f"task.folder: there is no folder {self.folder}"
        return "task.folder: no {}, {} or {} in {}".format(
            *(path.name for path in places), self.folder
        )


@dataclass(frozen=True)
class HubGlue:
    """GLUE as `nyu-mll/glue` lays it out, from the hub or a local folder of the same layout (write
    it with a slash). Labels and scores are turned back into the words of the TSV files.

    `datasets` is imported on use (1 s).
    """

    id: str = "nyu-mll/glue"
    revision: str | None = None

    def has(self, task: Task, split: str) -> bool:
        """Whether the data set lists this split.

        Raises: RelposError where the data set cannot be reached.
        """
        import datasets

        config, name = _address(task, split)
        with from_library(f"data set {self.id!r} ({config})"):
            return name in datasets.get_dataset_split_names(self.id, config, revision=self.revision)

    def table(self, task: Task, split: str) -> TextTable:
        """Raises: RelposError where the data set cannot be loaded, or lacks a column or a text."""
        import datasets

        config, name = _address(task, split)
        with from_library(f"data set {self.id!r} ({config})"):
            rows = datasets.load_dataset(self.id, config, revision=self.revision, split=name)
        source = f"{self.id} {config} {name}"
        fields = {}
        for column, hub in zip(task.sentences, task.hub_sentences or task.sentences, strict=True):
            if hub not in rows.column_names:
                raise RelposError(f"{source}: no column {hub!r}.{nearest(hub, rows.column_names)}")
            texts = list(rows[hub])
            if None in texts:
                raise RelposError(
                    f"{source} row {texts.index(None) + 1}: column {hub!r} holds null, a text or a "
                    "number is expected"
                )
            fields[column] = list(map(str, texts))
        if split in task.labelled and "label" in rows.column_names:
            names = getattr(rows.features["label"], "names", task.labels)
            fields[task.label] = _words(source, task, rows["label"], names)
        table = [list(row) for row in zip(*fields.values(), strict=True)]
        if not table:
            raise RelposError(f"{source}: no rows")
        return TextTable(source, tuple(fields), table, range(1, len(table) + 1), place="row")


def _address(task: Task, split: str) -> tuple[str, str]:
    """The configuration of a task on the hub, and the name of the split there."""
    return ON_HUB.get(split, (task.name, split.replace("dev", "validation")))


def _words(
    source: str,
    task: Task,
    labels: Sequence[int | float],
    names: Sequence[str] | None,
) -> list[str]:
    """The words that GLUE's own files have for these labels; a class outside the set keeps its
    number.

    Args:
        names: of the classes, in the order of their numbers, which may be another than GLUE's; None
            of a regression.

    Raises:
        RelposError: they are not the classes of the task.
    """
    if task.labels is None or names is None:
        import numpy

        # stored as float32: 3.8 reads 3.799999952316284 otherwise
        return [str(numpy.float32(label)) for label in labels]
    words = dict(zip(NAMED.get(task.name, task.labels), task.labels, strict=True))
    words |= {word: word for word in task.labels}
    if unknown := [name for name in names if name.lower() not in words]:
        raise RelposError(
            f"{source}: class {unknown[0]!r} is none of task={task.name}: "
            f"{', '.join(words)} are expected"
        )
    numbered: dict[float, str] = {number: words[name.lower()] for number, name in enumerate(names)}
    return [numbered.get(label, str(label)) for label in labels]


Location = TsvGlue | HubGlue
"""Where the rows of tasks are: `has(task, split)` and `table(task, split)`; a missing test split is
no mistake."""


Labels = list[int] | list[float] | None
"""Numbers of classes, or scores; None: a test split."""


@dataclass(frozen=True)
class Rows:
    """The rows of one split, as columns."""

    sentence_a: list[str]
    sentence_b: list[str] | None  # None: a task of single sentences
    labels: Labels

    def __len__(self) -> int:
        return len(self.sentence_a)


def read(location: Location, task: Task, split: str) -> Rows:
    """Reads one split: `train`, a value of `task.dev` or of `task.test`.

    Raises: RelposError of one line, naming the file and line: a missing or empty file, a missing
        column, a ragged row, a label outside the set, a score that is no number or out of range,
        text that is not UTF-8.
    """
    table = location.table(task, split)
    first, *second = [table.column(name) for name in task.sentences]
    labels: Labels = None
    if split in task.labelled:
        words = table.column(task.label)
        if task.labels is None:
            labels = _scores(table, words, task)
        else:
            labels = _classes(table, words, task.labels)
    return Rows(sentence_a=first, sentence_b=next(iter(second), None), labels=labels)


def _classes(table: TextTable, words: list[str], classes: Sequence[str]) -> list[int]:
    """The number of each word among the classes; RelposError where it is none of them."""
    numbers = {word: number for number, word in enumerate(classes)}
    for row, word in enumerate(words):
        if word not in numbers:
            hint = nearest(word, classes)
            raise RelposError(f"{table.where(row)}: label {word!r:.40} is outside the set.{hint}")
    return [numbers[word] for word in words]


def _scores(table: TextTable, words: list[str], task: Task) -> list[float]:
    """The words as numbers; RelposError where one is no finite number or outside the task's
    range."""
    low, high = task.range or (-inf, inf)
    scores = []
    for row, word in enumerate(words):
        try:
            score = float(word)
        except ValueError:
            score = nan
        if not isfinite(score):
            raise RelposError(f"{table.where(row)}: score {word!r:.40} is not a number")
        if not low <= score <= high:
            raise RelposError(
                f"{table.where(row)}: score {word!r:.40} is outside {low:g} to {high:g}"
            )
        scores.append(score)
    return scores
