"""A whole table, what it was made with, and its file, `$RELPOS_RUNS/tables/NAME/table.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relpos.errors import refuse_unknown
from relpos.files import write_json
from relpos.runs.table_file import FILE, read_table, table_folder
from relpos.tables.row import Row

if TYPE_CHECKING:
    from relpos.tables.plan import PlannedRow

SHORT = 7
"""Digits of a commit that are shown."""


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
        made: what its runs were made with, see `made_with`.
        tuned: the table in which the rows' `position_lr` was chosen.
    """

    name: str
    question: str
    rows: list[Row]
    checks: list[Outcome] = field(default_factory=list)
    statistic: str = "mean"
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
    """The folder of a table that has been written, and the table; `name` may be the experiment file that it was made from.

    Raises:
        RelposError: see `read_table`.
    """
    folder = table_folder(name)
    return folder, read_table(folder, Table)


def made_with(plan: Iterable[PlannedRow]) -> str:
    """What a table was made with: processors, versions and commits of its runs. Rows that mix them differ in their last digits.

    `Runs were made on AMD EPYC, avx512_bf16 (60) and AMD EPYC, avx2 (12); with torch 2.13.0; at commit 849145d.`, or empty.
    """
    runs = [run for row in plan for run in (*row.pretrainings, *(tuning.run for tuning in row.tunings))]
    # Rows may share a run, which was made once.
    return _made_with([run.record for run in {run.path: run for run in runs}.values() if run.state == "finished"])


def _made_with(records: Iterable[Mapping[str, Any]]) -> str:
    """The line of `made_with`, of these records.

    >>> first = {"hardware": {"processor": "a CPU", "instructions": "avx2"}, "commit": "01234567", "versions": {"torch": "2.13.0"}}
    >>> _made_with([first, first, first | {"hardware": {"processor": "another"}}])
    'Runs were made on a CPU, avx2 (2) and another (1); with torch 2.13.0; at commit 0123456.'
    """
    records = list(records)
    if not records:
        return ""
    parts = {
        "on ": [_machine(record.get("hardware") or {}) for record in records],
        "with torch ": [str((record.get("versions") or {}).get("torch", "unknown")) for record in records],
        "at commit ": [str(record.get("commit") or "unknown")[:SHORT] for record in records],
    }
    return f"Runs were made {'; '.join(before + _counted(values) for before, values in parts.items())}."


def _machine(hardware: Mapping[str, Any]) -> str:
    named = [*hardware.get("gpus", []), hardware.get("processor", "an unknown processor"), hardware.get("instructions")]
    return ", ".join(str(name) for name in named if name)


def _counted(values: Iterable[str]) -> str:
    counts = Counter(values)
    return " and ".join(f"{value} ({count})" if len(counts) > 1 else value for value, count in counts.most_common())
