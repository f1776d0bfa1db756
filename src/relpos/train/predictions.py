"""Files for the GLUE server: `index<TAB>prediction`, one file for each test set, with the names that the server expects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from relpos.data.tasks import Task
from relpos.files import write_text

BETWEEN = {ord(sign): repr(sign)[1:-1] for sign in "\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
"""Signs that end a value or a line for some reader → how they are spelled."""


def write_predictions(folder: Path, task: Task, name: str, indices: Sequence[int], predictions: ArrayLike) -> Path:
    """Writes `folder/NAME.tsv` in one piece and returns its path. `name` is a key of `task.test`.

    Predictions are classes or scores, as `relpos.train.metrics.decide` gives them. Classes are written as the words of
    the task's own files (`entailment`, `1`), scores clipped to the task's range (STS-B: 0 to 5).
    """
    # The server knows words, not our numbers of classes.
    words = _words(task, np.asarray(predictions, dtype=np.float64))
    lines = [f"{index}\t{word}\n" for index, word in sorted(zip(indices, words, strict=True))]
    path = folder / f"{name}.tsv"
    write_text(path, "".join(["index\tprediction\n", *lines]))
    return path


def write_answers(path: Path, predictions: ArrayLike, targets: ArrayLike, groups: ArrayLike | None = None) -> None:
    """Writes predicted classes or values beside the right ones, and the group where the metric judges groups: one line for each dev
    example, in the order of the file."""
    columns = {"prediction": predictions, "target": targets} | ({} if groups is None else {"group": groups})
    rows = zip(*(np.asarray(column, np.float64).tolist() for column in columns.values()), strict=True)
    # Nine digits tell any two float32 numbers apart.
    lines = ("\t".join(f"{number:.9g}" for number in row) for row in rows)
    write_text(path, "".join(f"{line}\n" for line in ["\t".join(columns), *lines]))


def _words(task: Task, predictions: np.ndarray) -> list[str]:
    if task.labels is not None:
        # CSV and JSON lines may have any sign in a label; here tabs and ends of lines stand between values.
        return [task.labels[int(number)].translate(BETWEEN) for number in predictions]
    low, high = task.range or (-np.inf, np.inf)
    return [f"{number:.3f}" for number in np.clip(np.nan_to_num(predictions, nan=low), low, high)]
