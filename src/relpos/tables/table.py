"""A table, its rows and their columns, as `$RELPOS_RUNS/tables/NAME/table.json` keeps them and
every renderer shows them.

All are frozen. Each step from runs to table returns new rows: `rows` selects the values of the runs
and adds measures of the networks, `comparison` adds the paper's numbers, the GLUE server's and the
differences to the baseline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from relpos.errors import refuse_unknown
from relpos.files import write_json
from relpos.measures.measure import NATS
from relpos.readers import Plain
from relpos.results.plateau import Onset
from relpos.results.scale import MEAN, Scale, columns_named
from relpos.results.statistics import Interval
from relpos.results.values import PartRates, Seed, Value
from relpos.runs.table_file import FILE, RowRun, read_table, table_folder

if TYPE_CHECKING:
    from relpos.tables.plan import PlannedRow

Better = Literal["less", "more"]
UNKNOWN: Plain = {
    "hardware": None,
    "gpus": [],
    "processor": "an unknown processor",
    "instructions": None,
    "versions": None,
    "torch": "unknown",
    "commit": None,
}
"""What stands for the facts that a record lacks."""
SHORT = 7
"""The number of digits of a commit that are shown."""


@dataclass(frozen=True)
class Column:
    """The scores of one row in one column, × 100, or nats. Unknown numbers are None, never zero.

    A column about order has one value per pre-training; the others have one per fine-tuning.

    Args:
        values: scores of the finished runs.
        seeds: for each value, the seeds of its pre-training and of its fine-tuning (0 where there
            is none).
        mean: of the values, or of the means of several pre-trainings; `best` and `median` are those
            of all values.
        sem: standard error of the mean; None for a single run.
        interval: 95 % bootstrap interval of the mean over seeds; with several pre-trainings, over
            pre-trainings and, if the runs kept their answers, over dev examples. None for a single
            run.
        of: the columns that this one is the mean of; empty for a column that is no mean.
        n_failed: runs that failed.
        n_missing: runs that are planned but not finished.
        n_collapsed: runs no better than the constant answer.
        majority: score of the constant answer on the dev set; for minimal pairs, of a guess.
        examples: size of the dev set, or the number of pairs.
        metric: accuracy, matthews, …, or nats.
        printed: the paper's number; `printed_sem` its standard error.
        difference: ours − printed. Ours is the mean over pre-trainings of the table's statistic; if
            the paper measured on the test set it is the GLUE server's score, and None until that is
            typed.
        inside: whether the printed number lies inside `interval`; None where that shows nothing,
            see `relpos.tables.comparison`.
        delta: mean − the baseline row's mean; None for the baseline itself.
        delta_percent: 100·delta/(100 − baseline's mean), the per cent of the baseline's errors that
            are gone.
        delta_interval: 95 % interval of delta, over pre-trainings if their spread is known, else
            over fine-tunings: then it says how these two models differ, and nothing about other
            pre-trainings of the two rows.
        delta_p: two-sided p-value of no difference between the two rows, over pre-trainings;
            `delta_p_holm` is adjusted for the rows of the column. None if the rows do not show how
            much pre-trainings differ.
        delta_printed: the same difference between the printed numbers.
        learnt: mean − that of the row that was not pre-trained; `learnt_interval` is found as
            `delta_interval` is. None for that row, without one, and where nothing is fine-tuned.
    """

    values: list[float] = field(default_factory=list)
    seeds: list[Seed] = field(default_factory=list)
    mean: float | None = None
    sem: float | None = None
    best: float | None = None
    median: float | None = None
    interval: Interval | None = None
    of: list[str] = field(default_factory=list)
    n_failed: int = 0
    n_missing: int = 0
    n_collapsed: int = 0
    majority: float | None = None
    examples: int | None = None
    metric: str | None = None
    printed: float | None = None
    printed_sem: float | None = None
    difference: float | None = None
    inside: bool | None = None
    delta: float | None = None
    delta_percent: float | None = None
    delta_interval: Interval | None = None
    delta_p: float | None = None
    delta_p_holm: float | None = None
    delta_printed: float | None = None
    learnt: float | None = None
    learnt_interval: Interval | None = None

    @property
    def by_seed(self) -> dict[Seed, float]:
        """Seeds → value."""
        return dict(zip(self.seeds, self.values, strict=True))

    @property
    def is_score(self) -> bool:
        """Whether it is a score × 100, of which more is better."""
        return self.metric != NATS

    @property
    def verdict(self) -> str | None:
        """`inside` or `outside`: where the printed number lies, seen from our interval."""
        if self.inside is None:
            return None
        return "inside" if self.inside else "outside"

    @property
    def decimals(self) -> int:
        """Decimals with which its numbers are shown."""
        return 1 if self.is_score else 3


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Args:
        name: its name in the experiment file.
        overrides: the overrides in which the row differs.
        perplexity: on held-out text, the mean over the finished pre-trainings.
        order_found: after how many tokens it knew half of the order, see `relpos.results.plateau`;
            likewise `order_known`, the fraction of the order that the best row of its scale knows,
            and `on_plateau`, whether it has not left the bag-of-words plateau. None where that is
            unknown.
        position_lr: the factor of the pre-training's learning rate for the parameters of scheme and
            convolution, or one for each part of the scheme.
        conv_lr: the factor for the convolution, where it differs.
        columns: name → scores.
        mean: of GLUE's columns, seed by seed; `of` names them.
        heldout_loss: (step, nats per predicted token): mean over the pre-trainings, the finished
            ones where one is, at the steps that all have reached.
        heldout_by_length: length in tokens → loss; None if the scheme does not serve the length.
        snapshots: per cent of the pre-training's steps → columns about order at that time, and
            `heldout_loss` of the text in order; 100 is the end. One value per pre-training.
        runs: pre-trainings, then fine-tunings.
        parts: task → number of training examples, and that of the official release, where ours are
            fewer.
        server: the GLUE server's scores, which are typed into the experiment file.
    """

    name: str
    overrides: list[str] = field(default_factory=list)
    parameters: int | None = None
    position_parameters: int | None = None
    perplexity: float | None = None
    order_found: Onset | None = None
    order_known: float | None = None
    on_plateau: bool | None = None
    position_lr: PartRates = 1.0
    conv_lr: float | None = None
    columns: dict[str, Column] = field(default_factory=dict)
    mean: Column = Column()
    heldout_loss: list[tuple[int, float]] = field(default_factory=list)
    heldout_by_length: dict[str, float | None] = field(default_factory=dict)
    snapshots: dict[int, dict[str, Column]] = field(default_factory=dict)
    runs: list[RowRun] = field(default_factory=list)
    parts: dict[str, tuple[int, int]] = field(default_factory=dict)
    server: dict[str, float] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[str, Column]:
        """The mean of GLUE's columns under its name, and the columns."""
        return {MEAN: self.mean} | self.columns

    def server_score(self, name: str) -> float | None:
        """The GLUE server's score in a column, or the mean of the nine; None where a score is
        missing."""
        return mean_if_all([self.server.get(column) for column in columns_named(name)])

    def with_numbers(self, numbers: Mapping[str, Column]) -> Row:
        """The row with these in place of its `numbers`."""
        columns = dict(numbers)
        return replace(self, mean=columns.pop(MEAN), columns=columns)


@dataclass(frozen=True)
class PlainColumn:
    """A column with one number for each row, which is in the records of its pre-trainings.

    Args:
        name: the name of the column, of the number in a record, and of the field of `Row`.
        form: the format of its text.
        kind: int for a count, which all pre-trainings of a row share; float for a number whose mean
            is shown.
        better: which numbers are better; None where neither are.
        below: another number of the row, which the page shows below it.
    """

    name: str
    form: str
    kind: type[int] | type[float] = float
    better: Better | None = None
    below: str = ""


PLAIN = (
    PlainColumn("parameters", "{:,}", int, below="position_parameters"),
    PlainColumn("perplexity", "{:.2f}", better="less"),
)
"""The columns that every table has in front of the scores."""


def scale_of(rows: Sequence[Row]) -> Scale:
    """A scale of the rows that are compared with each other."""
    return Scale(
        values={
            row.name: {
                name: column_values(name, column)
                for name, column in row.columns.items()
                if column.values
            }
            for row in rows
        }
    )


def column_values(name: str, column: Column) -> list[Value]:
    """The scores of a column as values of runs."""
    return [
        Value(
            Path(),
            "",
            name,
            score,
            pretrain_seed=pretrain_seed,
            seed=seed,
            metric=column.metric or "",
            examples=column.examples,
            majority=column.majority,
        )
        for (pretrain_seed, seed), score in column.by_seed.items()
    ]


def mean_if_all(values: Sequence[float | None]) -> float | None:
    """The mean; None if a value is missing, or if there are no values.

    >>> mean_if_all([1.0, 2.0]), mean_if_all([1.0, None])
    (1.5, None)
    """
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(values) else None


@dataclass(frozen=True)
class Table:
    """The result of an experiment; its fields are the keys of `table.json`.

    Args:
        name: the name of the experiment.
        question: the question that the table answers.
        rows: in the order of the experiment file.
        statistic: mean, best or median, whichever is compared with the printed numbers.
        made: the processors, versions and commits of its runs, see `made_with`.
        tuned: the table in which the rows' `position_lr` was chosen.
        changes: the command line's changes to the experiment file, see `relpos.tables.changes`.
    """

    name: str
    question: str
    rows: list[Row]
    statistic: str = "mean"
    tuned: str | None = None
    made: str = ""
    changes: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Writes `table.json`."""
        write_json(folder / FILE, asdict(self))

    def row(self, name: str) -> Row:
        """The row of this name.

        Raises:
            RelposError: there is none; the nearest names are given.
        """
        by_name = {row.name: row for row in self.rows}
        refuse_unknown(f"table {self.name}: unknown row", name, by_name)
        return by_name[name]


def written(name: str) -> tuple[Path, Table]:
    """The folder of a table that has been written, and the table; `name` may also be the path of
    its experiment file.

    Raises:
        RelposError: see `read_table`.
    """
    folder = table_folder(name)
    return folder, read_table(folder, Table)


def made_with(plan: Iterable[PlannedRow]) -> str:
    """The processors, versions and commits of a table's runs; where rows mix them, their last
    digits differ.

    `Runs were made on AMD EPYC, avx512_bf16 (60) and AMD EPYC, avx2 (12); with torch 2.13.0; at
    commit 849145d.`, or empty.
    """
    runs = {run.path: run for row in plan for run in row.runs}  # rows may share a run
    facts = [_made_with(run.record) for run in runs.values() if run.state == "finished"]
    if not facts:
        return ""
    texts = map(_counted, zip(*facts, strict=True))
    return "Runs were made on {}; with torch {}; at commit {}.".format(*texts)


def _made_with(record: Plain) -> tuple[str, str, str]:
    """The processor, the version of torch and the commit in the record of a run."""
    facts = UNKNOWN | record
    facts |= (facts["hardware"] or {}) | (facts["versions"] or {})
    machine = filter(None, [*facts["gpus"], facts["processor"], facts["instructions"]])
    commit = str(facts["commit"] or UNKNOWN["torch"])[:SHORT]
    return ", ".join(map(str, machine)), str(facts["torch"]), commit


def _counted(values: Iterable[str]) -> str:
    counts = Counter(values)
    if len(counts) == 1:
        return next(iter(counts))
    return " and ".join(f"{value} ({count})" for value, count in counts.most_common())
