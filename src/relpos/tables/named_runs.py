"""A run that a user names: a folder, or `TABLE:ROW`, a row of a table that has been written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from relpos.errors import RelposError
from relpos.runs.run import runs_root
from relpos.tables.row import Row
from relpos.tables.table import written

if TYPE_CHECKING:
    from relpos.data.tokenizer import Tokenizer
    from relpos.model.heads import MaskedLM


def named_row(name: str) -> Row | None:
    """The row that `TABLE:ROW` names; None where the name is not of that form, or a file or folder has it.

    Raises:
        RelposError: there is no such table or row; the nearest names are given.
    """
    table, colon, row = name.rpartition(":")
    if not colon or not table or Path(name).expanduser().exists():
        return None
    return written(table)[1].row(row)


def pretrainings_of(row: Row) -> list[Path]:
    """The folders of the finished pre-trainings of a row, in the order of their seeds."""
    return [runs_root() / run.path for run in row.runs if run.stage in ("pretrain", "given") and run.state == "finished"]


def named_folder(key: str, name: str) -> Path:
    """The folder or file that `KEY=NAME` names; of a row with several pre-trainings the first one's.

    Raises:
        RelposError: there is no such row, or none of its pre-trainings is finished.
    """
    row = named_row(name)
    if row is None:
        return Path(name).expanduser()
    folders = pretrainings_of(row)
    if not folders:
        raise RelposError(f"{key}={name}: no pre-training of this row is finished")
    return folders[0]


def masked_lm(name: str | Path) -> tuple[MaskedLM, Tokenizer]:
    """The masked language model of a pre-training's folder, a model folder, a snapshot's file or `TABLE:ROW`, and its tokenizer.

    Raises:
        RelposError: there is no such network, or it predicts no words.
    """
    from relpos.data.tokenizer import Tokenizer
    from relpos.runs.trained import trained

    subject = trained(named_folder("run", str(name)), key="run")
    return subject.load(), Tokenizer.load(subject.folder)
