"""A whole table and its file, `$RELPOS_RUNS/tables/NAME/table.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from relpos.config.conf import shipped
from relpos.errors import RelposError, nearest, refuse_unknown
from relpos.files import fitted, read_json, write_json
from relpos.runs.run import runs_root
from relpos.tables.checks import Outcome
from relpos.tables.row import Row

FILE = "table.json"


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

    @classmethod
    def from_dict(cls, content: Mapping[str, object]) -> Table:
        """The table that the content of a `table.json` describes. An older file may lack keys, which then have their defaults.

        Raises:
            RelposError: a value without a default is missing, or a value is of the wrong kind; names its place.

        >>> table = Table.from_dict({"name": "t", "question": "?", "rows": [{"name": "a", "columns": {"rte": {"mean": 70}}}]})
        >>> table.row("a").columns["rte"].mean
        70.0
        """
        table: Table = fitted(_with_overrides(content), Table)
        return table

    def to_dict(self) -> dict[str, object]:
        """The content of `table.json`."""
        return asdict(self)

    def write(self, folder: Path) -> None:
        """Writes `table.json`."""
        write_json(folder / FILE, self.to_dict())

    def row(self, name: str) -> Row:
        """The row of this name.

        Raises:
            RelposError: there is none; the nearest names are given.
        """
        by_name = {row.name: row for row in self.rows}
        refuse_unknown(f"table {self.name}: unknown row", name, by_name)
        return by_name[name]


def _with_overrides(content: Mapping[str, object]) -> Mapping[str, object]:
    """The content with the rows' `overrides`, which older versions called `words`."""
    rows = content.get("rows") if isinstance(content, Mapping) else None
    if not isinstance(rows, list):
        return content
    renamed = [{"overrides": row["words"]} | row if isinstance(row, dict) and "words" in row else row for row in rows]
    return {**content, "rows": renamed}


def read(path: Path) -> Table:
    """The table that a `table.json` holds.

    Raises:
        RelposError: the file is damaged.
        FileNotFoundError: there is none.
    """
    if not path.exists():
        raise FileNotFoundError(path)
    try:
        return Table.from_dict(read_json(path, dict))
    except RelposError as error:
        raise RelposError(f"{path}: {str(error).removeprefix(f'{path}: damaged: ')}") from error


def written(name: str) -> tuple[Path, Table]:
    """The folder of a table that has been written, and the table.

    Args:
        name: of the table, or the experiment file that it was made from.

    Raises:
        RelposError: there is none, and the nearest names are given; or its file is damaged.
    """
    # A dot in a table's name is no suffix.
    stem = Path(name).stem if name.endswith((".yaml", ".yml")) else name
    tables = runs_root() / "tables"
    try:
        return tables / stem, read(tables / stem / FILE)
    except FileNotFoundError:
        # Only then is there a command that makes the table.
        is_experiment = name != stem or (shipped("experiments") / f"{stem}.yaml").is_file()
        command = f" yet: relpos reproduce table={name} makes it" if is_experiment else ""
        known = nearest(stem, (path.parent.name for path in tables.glob(f"*/{FILE}")))
        raise RelposError(f"no table {stem!r} in {tables}{command}.{known}") from None
