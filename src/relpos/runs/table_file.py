"""The one reader of `$RELPOS_RUNS/tables/NAME/table.json`. Whoever reads it says which part of it is needed, as a dataclass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from relpos.config.conf import shipped
from relpos.errors import RelposError, nearest
from relpos.readers import fitted, read_json
from relpos.runs.run import runs_root

FILE = "table.json"
Form = TypeVar("Form")


@dataclass(frozen=True)
class RowRun:
    """A run behind a row: where it lies and what became of it.

    Args:
        stage: pretrain or finetune; given for a model that the user named by its folder.
        task: of a fine-tuning.
        path: below `$RELPOS_RUNS`, or absolute.
        columns: the scores of a finished fine-tuning.
        error: why it failed; `log` has the last lines that it printed.
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
    log: list[str] = field(default_factory=list)


def table_folder(name: str) -> Path:
    """The folder of a table of this name, or of the one that an experiment file of this path makes."""
    # A dot in a table's name is no suffix.
    return runs_root() / "tables" / (Path(name).stem if name.endswith((".yaml", ".yml")) else name)


def read_table(folder: Path, form: type[Form]) -> Form:
    """What the `table.json` of a folder says, in this form. An older file may lack keys, which then have the form's defaults.

    Raises:
        RelposError: there is none, and the nearest names are given; or its file is damaged, and the place in it is named.
    """
    path = folder / FILE
    if not path.exists():
        # Only then is there a command that makes the table.
        is_experiment = (shipped("experiments") / f"{folder.name}.yaml").is_file()
        command = f" yet: relpos reproduce table={folder.name} makes it" if is_experiment else ""
        known = nearest(folder.name, (other.parent.name for other in folder.parent.glob(f"*/{FILE}")))
        raise RelposError(f"no table {folder.name!r} in {folder.parent}{command}.{known}")
    content = read_json(path, dict)
    try:
        table: Form = fitted(_newer(content), form)
    except RelposError as error:
        raise RelposError(f"{path}: damaged: {error}") from error
    return table


def _newer(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The content as today's code writes it: older code called a row's `overrides` `words`, and wrote seeds as numbers and text."""
    rows = content.get("rows")
    if not isinstance(rows, list):
        return content
    return {**content, "rows": [_newer_row(row) if isinstance(row, dict) else row for row in rows]}


def _newer_row(row: dict[str, Any]) -> dict[str, Any]:
    at_times = [_values(then) for then in _values(row.get("snapshots"))]
    for column in (*_values(row.get("columns")), row.get("mean"), *chain.from_iterable(at_times)):
        if isinstance(column, dict) and isinstance(column.get("seeds"), list):
            column["seeds"] = [_pair(seed) for seed in column["seeds"]]
    return {"overrides": row["words"]} | row if "words" in row else row


def _values(content: object) -> list[Any]:
    return list(content.values()) if isinstance(content, dict) else []


def _pair(seed: object) -> object:
    """`1/42` is fine-tuning 42 of pre-training 1, `1` a pre-training itself, and 42 a fine-tuning of a row's only pre-training."""
    if isinstance(seed, str):
        return [*seed.split("/"), "0"][:2]
    return (0, seed) if isinstance(seed, int) else seed
