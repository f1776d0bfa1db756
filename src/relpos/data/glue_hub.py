"""GLUE as `nyu-mll/glue` lays it out, and tasks with data sets of their own, from the hub or a local folder of the same layout.

`datasets` is imported on use (1 s). Labels and scores are turned back into the words of the TSV files, so that
everything after this is one path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relpos.data.table import Table
from relpos.data.tasks import Task
from relpos.errors import RelposError, one_line

_ELSEWHERE = {"ax": ("ax", "test")}  # the diagnostic set is a configuration of its own


@dataclass(frozen=True)
class HubGlue:
    """A data set id (or a folder of that layout; write it with a slash) and its revision."""

    id: str = "nyu-mll/glue"
    revision: str | None = None

    def has(self, task: Task, split: str) -> bool:
        """Whether the data set lists this split.

        Raises: RelposError where the data set cannot be reached.
        """
        import datasets

        config, name = _address(task, split)
        names = self._ask(datasets.get_dataset_split_names, task, config)
        return name in names

    def table(self, task: Task, split: str) -> Table:
        """Raises: RelposError where the data set cannot be loaded or lacks a column."""
        import datasets

        config, name = _address(task, split)
        rows = self._ask(datasets.load_dataset, task, config, split=name)
        source = f"{self._data_set(task)[0]} {config} {name}"
        columns = dict(zip(task.sentences, task.hub_sentences or (), strict=True))
        missing = [hub for hub in columns.values() if hub not in rows.column_names]
        if missing:
            raise RelposError(f"{source}: no column {missing[0]!r}. Known: {', '.join(rows.column_names)}.")
        fields = {ours: [str(text) for text in rows[hub]] for ours, hub in columns.items()}
        labels = rows["label"] if "label" in rows.column_names else []
        if any(label != -1 for label in labels):  # hidden test labels read -1
            fields[task.label] = [_word(task, label) for label in labels]
        if number := next((name for name in ("idx", "id") if name in rows.column_names), None):
            fields["index"] = [str(index) for index in rows[number]]
        table = [list(row) for row in zip(*fields.values(), strict=True)]
        if not table:
            raise RelposError(f"{source}: no rows")
        return Table(source, tuple(fields), table, range(1, len(table) + 1), place="row")

    def _data_set(self, task: Task) -> tuple[str, str | None]:
        """Id and revision: the task's own data set where it has one, else GLUE's."""
        return (str(task.hub["id"]), task.hub.get("revision")) if task.hub else (self.id, self.revision)

    def _ask(self, function: Any, task: Task, config: str, **more: Any) -> Any:
        """Calls `datasets`; its errors, which are of many types and often long, become one line."""
        data_set, revision = self._data_set(task)
        try:
            return function(data_set, config, revision=revision, **more)
        except Exception as error:  # the hub, the network and broken files raise errors of many unrelated types
            raise RelposError(f"data set {data_set!r} ({config}): {one_line(error)}") from error


def _address(task: Task, split: str) -> tuple[str, str]:
    config = str(task.hub["config"]) if task.hub else task.name
    return _ELSEWHERE.get(split, (config, split.replace("dev", "validation")))


def _word(task: Task, label: Any) -> str:
    """The word that GLUE's own files have for this label; a class outside the set keeps its number."""
    if task.labels is None:
        import numpy

        return str(numpy.float32(label))  # stored as float32: 3.8 reads 3.799999952316284 otherwise
    known = isinstance(label, int) and 0 <= label < len(task.labels)
    return task.labels[label] if known else str(label)
