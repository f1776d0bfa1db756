"""A whole table and its file, `$RELPOS_RUNS/tables/NAME/table.json`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from relpos.errors import refuse_unknown
from relpos.files import write_json
from relpos.runs.table_file import FILE, read_table, table_folder
from relpos.tables.row import Row


@dataclass(frozen=True)
class Outcome:
    """What became of a claim in the experiment file: holds, fails, undecided or not run, and the numbers that decide."""

    says: str
    verdict: str
    figures: str


@dataclass(frozen=True)
class Table:
    """What an experiment gave; the keys of `table.json` are the fields here.

    Args:
        name: of the experiment.
        question: that the table answers.
        rows: in the order of the experiment file.
        checks: what the numbers should show, and whether they do.
        statistic: which of mean, best and median is compared with the printed numbers.
        split: the set on which the printed numbers were measured: dev or test.
        baseline: the rows that the others are compared with.
        claims: ids of the claims that the table is about.
        made: what its runs were made with, see `relpos.tables.provenance`.
        tuned: the table in which the rows' `position_lr` was chosen.
    """

    name: str
    question: str
    rows: list[Row]
    checks: list[Outcome] = field(default_factory=list)
    statistic: str = "mean"
    split: str = "dev"
    baseline: list[str] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)
    tuned: str | None = None
    made: str = ""

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
    """The folder of a table that has been written, and the table.

    Args:
        name: of the table, or the experiment file that it was made from.

    Raises:
        RelposError: see `read_table`.
    """
    folder = table_folder(name)
    return folder, read_table(folder, Table)
