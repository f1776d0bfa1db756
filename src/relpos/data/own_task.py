"""A task of the user's own: its keys in the configuration or in a YAML file anywhere
(`task=FILE.yaml`), and the `Task` that is made from them and from its files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from relpos.data.glue import OwnFiles, read
from relpos.data.tasks import Task, epoch_steps
from relpos.errors import RelposError
from relpos.places import expanded
from relpos.ranges import Batch, NotNegative, Positive
from relpos.readers import read_yaml
from relpos.trust import refuse, refuse_mistakes

METRICS = "relpos.train.metrics"
DEFAULTS = {"classes": "accuracy", "number": "pearson_and_spearman"}
MOST_CLASSES = 1_000
"""More classes than this are taken for numbers or free text in the label column by mistake."""


@dataclass(frozen=True)
class OwnTask:
    """One or two texts with a class or a number. The keys of conf/task/custom.yaml, which explains
    them, are the arguments here.

    A relative `folder` is looked up below the folder that RELPOS_DATA names, where it is set.

    Raises:
        RelposError: an argument is missing, or does not go with the others.
    """

    folder: str | None = None
    columns: str | Sequence[str] | None = None
    label: str = "label"
    kind: Literal["classes", "number"] = "classes"
    labels: Sequence[str] | None = None
    metric: str | None = None
    name: str | None = None
    intermediate: str | None = None
    batch: Batch = 32
    epochs: Positive = 3
    lr: NotNegative = 3e-4

    def __post_init__(self) -> None:
        if self.folder is None:
            raise RelposError(
                "task.folder must be given: the folder with train.tsv (.csv, .jsonl) "
                "and dev.tsv (.csv, .jsonl)"
            )
        if not 1 <= len(self.texts) <= 2:
            raise RelposError(
                "task.columns must be given: one or two columns with text, as in "
                "task.columns=[premise,hypothesis]"
            )
        if self.kind == "number" and self.labels is not None:
            raise RelposError("task.labels: task.kind=number has no classes")
        if self.labels is not None and len(set(map(str, self.labels))) < max(2, len(self.labels)):
            raise RelposError("task.labels: two or more different classes are expected")

    @property
    def texts(self) -> list[str]:
        """The columns with text."""
        if isinstance(self.columns, str):
            return [self.columns]
        return [str(column) for column in self.columns or ()]

    @property
    def files(self) -> OwnFiles:
        """The folder with the task's files."""
        assert self.folder is not None
        return OwnFiles(expanded(os.getenv("RELPOS_DATA") or "") / expanded(str(self.folder)))

    def arguments(self) -> dict[str, object]:
        """The arguments of the `Task`, as plain values. Reads the train and the dev file and checks
        every row.

        Raises:
            RelposError: something is wrong with a file; names it and the line.
        """
        name = str(self.name or "") or re.sub(r"[^\w.+-]+", "_", self.files.folder.resolve().name)
        if not re.fullmatch(r"\w[\w.+-]*", name):
            raise RelposError(f"task.name={name}: letters, digits and . _ + - are expected")
        metric = str(self.metric or DEFAULTS[self.kind])
        if "." not in metric:
            metric = f"{METRICS}.{metric}"
        arguments = {
            "name": name,
            # Absolute: the run keeps it, and may be continued from another working directory.
            "folder": str(self.files.folder.resolve()),
            "sentences": self.texts,
            "label": str(self.label),
            "labels": self.labels and list(map(str, self.labels)),
            "columns": [name],
            "dev": {name: "dev"},
            "test": {name: "test"},
            "metric": metric,
            "batch": self.batch,
            "lr": self.lr,
            "intermediate": self.intermediate,
        }
        files = json.dumps(self.files.identity())
        labels, rows = _checked(json.dumps(arguments), self.kind, files)
        steps = max(1, round(self.epochs * epoch_steps(rows, self.batch)))
        return {
            "_target_": "relpos.data.tasks.Task",
            **arguments,
            "labels": labels,
            "rows": rows,
            "steps": steps,
        }


@lru_cache(maxsize=16)
def _checked(plain: str, kind: str, files: str) -> tuple[list[str] | None, int]:
    """The classes and the number of training rows. Cached, because a table plans its tasks once for
    each of its rows.

    Args:
        plain: the arguments of the task as JSON, which can be the key of a cache.
        kind: of the task.
        files: the files' identity as JSON, so that files that have changed are read again.
    """
    arguments = json.loads(plain)
    location = OwnFiles(Path(arguments["folder"]))
    task = Task(**arguments, rows=1, steps=1)
    if kind == "classes" and task.labels is None:
        task = replace(task, labels=_classes(location, task))
    rows = len(read(location, task, "train"))
    read(location, task, "dev")
    return None if task.labels is None else list(task.labels), rows


def _classes(location: OwnFiles, task: Task) -> list[str]:
    """The classes in the training file, sorted; as numbers where all of them are whole numbers."""
    table = location.table(task, "train")
    column = table.column(task.label)
    if "" in column:
        raise RelposError(f"{table.where(column.index(''))}: no label")
    classes = set(column)
    if len(classes) == 1:
        raise RelposError(
            f"{table.source}: every row has the label {column[0]!r}; two or more "
            f"classes are expected"
        )
    if len(classes) > MOST_CLASSES:
        raise RelposError(
            f"{table.source}: {len(classes):,} different labels in column "
            f"{task.label!r}: is it task.kind=number?"
        )
    # As words, 10 would stand before 2: the order of the classes is that of a classifier's outputs.
    if all(re.fullmatch(r"-?\d{1,4300}", word) for word in classes):  # int refuses more digits
        # Between 1 and 01 the word decides: their order in the set changes from process to process.
        return sorted(classes, key=lambda word: (int(word), word))
    return sorted(classes)


def is_task_file(name: str) -> bool:
    """Whether the name of a task is the path of a YAML file."""
    return name.endswith((".yaml", ".yml"))


def read_task_file(name: str) -> dict[str, object]:
    """The arguments of `OwnTask` in a YAML file; `name` and `folder` are the file's own where it
    does not set them.

    Raises:
        RelposError: names the file and what is wrong.
    """
    path = expanded(name)
    content = read_yaml(path)
    # in a plan it would be read as a reference to another key, or to the environment
    if "${" in str(content):
        raise RelposError(f"{name}: the file has ${{, and may not refer to anything")
    match content:
        case {"metric": str(metric)} if "." in metric:
            refuse(metric, "metric", f"{name}: metric")
    match content:
        case {"labels": [*labels]} if any(isinstance(label, bool) for label in labels):
            raise RelposError(
                f"{name}: labels: YAML reads yes, no, true and false as truth values; "
                f'put them in quotes, ["no", "yes"]'
            )
    try:  # here and not by the constructor, whose message would not name the file
        refuse_mistakes(content, OwnTask)
    except RelposError as error:
        raise RelposError(f"{name}: {error}") from None
    # From the file's folder and absolute: the same task must be found from any working directory.
    place = path.resolve().parent
    task = {"name": path.stem, "folder": ".", **content}
    task["folder"] = str((place / expanded(str(task["folder"] or "."))).resolve())
    match content:
        case {"intermediate": str(file)} if is_task_file(file):
            task["intermediate"] = str((place / expanded(file)).resolve())
    return task
