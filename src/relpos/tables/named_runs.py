"""Runs that a user names: by a folder, by a table that has been written, or by `TABLE:ROW`, a row of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from relpos.errors import RelposError
from relpos.runs.run import runs_root
from relpos.tables.row import Row
from relpos.tables.table import FILE, read, written

if TYPE_CHECKING:
    from relpos.data.tokenizer import Tokenizer
    from relpos.model.heads import MaskedLM


def named_row(name: str) -> Row | None:
    """The row that `TABLE:ROW` names; None if the name has another form, or is that of a file or folder.

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


def named_folder(name: str) -> Path:
    """The folder or file that `network=NAME` names; for a row of several pre-trainings, the first one's.

    Raises:
        RelposError: there is no such row, or none of its pre-trainings is finished.
    """
    row = named_row(name)
    if row is None:
        return Path(name).expanduser()
    folders = pretrainings_of(row)
    if not folders:
        raise RelposError(f"network={name}: no pre-training of this row is finished")
    return folders[0]


@dataclass(frozen=True)
class Named:
    """A network's folder, and a name that tells it from others.

    Args:
        row: the row of a table that it belongs to; None for a folder or file.
    """

    name: str
    path: Path
    row: str | None = None


def named_networks(names: Sequence[str], table: str | None = None) -> list[Named]:
    """The networks that `network=[NAMES]` and `table=TABLE` name: folders, files, `TABLE:ROW`, or folders of tables.

    A table and a row stand for their finished pre-trainings.

    Raises:
        RelposError: there is no such table or row, or none of its pre-trainings is finished.
    """
    networks: list[Named] = []
    single: list[Path] = []
    if table is not None:
        networks += _of_rows(f"table={table}", written(table)[1].rows)
    for name in names:
        path = Path(name).expanduser()
        if (path / FILE).is_file():
            networks += _of_rows(f"network={name}", read(path / FILE).rows)
        elif (row := named_row(name)) is not None:
            networks += _of_rows(f"network={name}", [row])
        else:
            single.append(path)
    return networks + [Named(label, path) for label, path in zip(labels(single), single, strict=True)]


def _of_rows(override: str, rows: Sequence[Row]) -> list[Named]:
    networks = []
    for row in rows:
        folders = [(run.seed, runs_root() / run.path) for run in row.runs if run.stage == "pretrain" and run.state == "finished"]
        several = len(folders) > 1
        networks += [Named(f"{row.name} seed {seed}" if several else row.name, folder, row.name) for seed, folder in folders]
    if not networks:
        raise RelposError(f"{override}: no pre-training is finished")
    return networks


def labels(folders: Sequence[Path]) -> list[str]:
    """Position and convolution, with which a folder's name begins; the whole names if these do not tell the runs apart."""
    names = [folder.resolve().name for folder in folders]
    short = [re.sub(r"-\d+x\d+-.*", "", name) for name in names]
    return short if len(set(short)) == len(short) else names


def masked_lm(name: str | Path) -> tuple[MaskedLM, Tokenizer]:
    """The masked language model of a pre-training's folder, a model folder, a snapshot's file or `TABLE:ROW`, and its tokenizer.

    Raises:
        RelposError: there is no such network, or it predicts no words.
    """
    from relpos.data.published_tokenizer import load_tokenizer
    from relpos.runs.trained import trained

    subject = trained(named_folder(str(name)))
    return subject.load(), load_tokenizer(subject.folder)
