"""Tasks: their files and columns, labels, metric, and the numbers that they are trained with.

Each task has a YAML file in `conf/task/`; its keys are the arguments of `Task`. A task of the
user's own becomes a `Task` in `relpos.data.own_task`. Nothing here reads a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from relpos.ranges import Batch, Count, NotNegative, Positive


@dataclass(frozen=True)
class Task:
    """One task: of GLUE, or of the user's own.

    The training numbers are those of the authors' released `run_glue.py`; `paper_*` are those that
    the paper's Table 5 prints, `albert_*` those of ALBERT's `run_glue.sh`.
    """

    name: str  # also its configuration in nyu-mll/glue
    folder: str  # in GLUE's own layout; of a task of the user's own, a path
    sentences: Sequence[str]  # one or two columns of the TSV files
    label: str  # column with the label
    # the words in that column, class 0 first (nyu-mll/glue's order); None = regression
    labels: Sequence[str] | None
    columns: Sequence[str]  # columns of the results table
    dev: Mapping[str, str]  # column of the results table -> split it is measured on
    test: Mapping[str, str]  # file name in a submission, without .tsv -> split it predicts
    metric: str  # dotted name of a function (predictions, targets) -> 0..1
    batch: Batch
    steps: Count  # belong to `rows` and `batch`, see `authors_steps`
    lr: NotNegative
    rows: Count  # training rows of the official release
    paper_batch: Count | None = None
    paper_epochs: Positive | None = None
    paper_lr: NotNegative | None = None
    albert_batch: Count | None = None
    albert_steps: Count | None = None
    albert_warmup: Count | None = None
    albert_lr: NotNegative | None = None
    intermediate: str | None = None  # the task whose fine-tuned encoder this one starts from
    range: Sequence[float] | None = None  # of a regression's scores
    # split -> columns of a file without a header line
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    hub_sentences: Sequence[str] | None = None  # where nyu-mll/glue names the columns otherwise
    broken: bool = False  # leave out rows that a line end inside a sentence has broken in two

    def __post_init__(self) -> None:
        if self.labels is not None:  # `labels: [0, 1]` are numbers to YAML, and words in the files
            object.__setattr__(self, "labels", tuple(map(str, self.labels)))

    @property
    def outputs(self) -> int:
        """Width of the classifier: the number of classes, 1 for a regression."""
        if self.labels is None:
            return 1
        return len(self.labels)

    @property
    def regression(self) -> bool:
        return self.labels is None

    def needed(self, split: str) -> list[str]:
        """The columns that a split must have: texts and, but for test splits, label."""
        columns = list(self.sentences)
        if split in self.labelled:
            columns.append(self.label)
        return columns

    @property
    def labelled(self) -> tuple[str, ...]:
        """The splits that must have labels."""
        return ("train", *self.dev.values())


def epoch_steps(rows: int, batch: int) -> int:
    """Steps in one pass over the rows; the last, short batch is kept."""
    return ceil(rows / batch)


def authors_steps(task: Task, rows: int, batch: int, epochs: float | None = None) -> int:
    """The authors' steps for the official rows and their batch; for other numbers, the same number
    of epochs, or `epochs`."""
    epochs = epochs or task.steps / epoch_steps(task.rows, task.batch)
    return max(1, round(epochs * epoch_steps(rows, batch)))
