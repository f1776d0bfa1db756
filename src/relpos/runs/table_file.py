"""The one reader of `$RELPOS_RUNS/tables/NAME/table.json`. Whoever reads it says which part of it
is needed, as a dataclass."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from relpos.config.conf import shipped
from relpos.errors import RelposError, nearest
from relpos.readers import read_json
from relpos.runs.run import OfStage, runs_root

FILE = "table.json"
Form = TypeVar("Form")


@dataclass(frozen=True)
class RowRun(OfStage):
    """A run behind a row: where it lies and what became of it.

    Args:
        stage: pretrain or finetune; given for a model that the user named by its folder.
        task: of a fine-tuning.
        path: below `$RELPOS_RUNS`, or absolute.
        columns: the scores of a finished fine-tuning.
        error: why it failed.
    """

    stage: str
    identity: str
    state: str
    path: str
    task: str | None = None
    pretrain_seed: int | None = None
    seed: int | None = None
    columns: dict[str, float] = field(default_factory=dict)
    error: str | None = None


@dataclass
class _Row:
    name: str
    runs: list[RowRun] = field(default_factory=list)


@dataclass
class _Rows:
    rows: list[_Row]


def table_folder(name: str) -> Path:
    """The folder of a table of this name, or of the one that an experiment file of this path makes.

    Raises:
        RelposError: the name is none for a folder of its own, as that of `...yaml`, whose stem is
            `..`.
    """
    # A dot in a table's name is no suffix.
    stem = Path(name).stem if name.endswith((".yaml", ".yml")) else name
    if stem[:1] in ("", ".") or "/" in stem or not stem.isprintable():
        raise RelposError(
            f"table={name}: {stem!r} cannot be the name of a table: it begins with a "
            f"dot or has a / in it"
        )
    return runs_root() / "tables" / stem


def read_table(folder: Path, form: type[Form]) -> Form:
    """What the `table.json` of a folder says, in this form. An older file may lack keys, which then
    have the form's defaults.

    Raises:
        RelposError: there is no table, and the nearest names are given; or its file is damaged, and
            the place in it is named.
    """
    path = folder / FILE
    if not path.exists():
        # Only then is there a command that makes the table.
        is_experiment = (shipped("experiments") / f"{folder.name}.yaml").is_file()
        command = f" yet: relpos reproduce table={folder.name} makes it" if is_experiment else ""
        names = (other.parent.name for other in folder.parent.glob(f"*/{FILE}"))
        raise RelposError(
            f"no table {folder.name!r} in {folder.parent}{command}.{nearest(folder.name, names)}"
        )
    return read_json(path, form)


def runs_by_row(folder: Path) -> dict[str, list[RowRun]]:
    """Row → its runs, of the table in a folder.

    Raises:
        RelposError: as `read_table`.
    """
    return {row.name: row.runs for row in read_table(folder, _Rows).rows}
