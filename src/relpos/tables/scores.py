"""The GLUE server's scores: kept beside the table in `scores.json`, shown in it as `test`. Scores are × 100."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from relpos.errors import RelposError
from relpos.files import write_json
from relpos.readers import read_json
from relpos.results.values import GLUE
from relpos.tables.columns import mean_if_all
from relpos.tables.row import Row

COLUMNS = (*GLUE, "wnli", "ax")
SIGNED = ("cola", "stsb", "ax")
"""Correlations: they may be below zero."""
FILE = "scores.json"


@dataclass(frozen=True)
class Recorded:
    """The server's scores of one row.

    Args:
        scores: column → score.
        submission: SHA-256 of the zip that was sent, if `relpos submit` made it.
        recorded: when they were recorded.
    """

    scores: dict[str, float]
    submission: str | None = None
    recorded: str | None = None


def read_scores(folder: Path) -> dict[str, Recorded]:
    """Row → its recorded scores; empty if there is no file.

    Raises:
        RelposError: the file is damaged.
    """
    recorded: dict[str, Recorded] = read_json(folder / FILE, dict[str, Recorded], {})
    return recorded


def write_scores(folder: Path, recorded: Mapping[str, Recorded]) -> None:
    """Writes `scores.json`."""
    write_json(folder / FILE, {row: asdict(of_row) for row, of_row in recorded.items()})


def merged_scores(folders: Iterable[Path], root: Path) -> dict[Path, dict[str, Recorded]]:
    """Folder of a table below `root` → the scores of its rows there and elsewhere, for tables that get new ones.

    Args:
        folders: `$RELPOS_RUNS` of other machines.
        root: `$RELPOS_RUNS` of this one.

    Raises:
        RelposError: two places have different scores of the same row, or a file is damaged.
    """
    merged: dict[Path, dict[str, Recorded]] = {}
    for folder in folders:
        for file in sorted(folder.glob(f"tables/*/{FILE}")):
            here = root / "tables" / file.parent.name
            known = merged.setdefault(here, read_scores(here))
            for row, recorded in read_scores(file.parent).items():
                known[row] = _joined(known.get(row, Recorded({})), recorded, f"{file}: row {row}")
    # A file that would not change is not written, so that its time stays true.
    return {folder: recorded for folder, recorded in merged.items() if recorded != read_scores(folder)}


def _joined(ours: Recorded, theirs: Recorded, where: str) -> Recorded:
    """The scores of both; submission and time are those of the later one."""
    for column in ours.scores.keys() & theirs.scores.keys():
        if ours.scores[column] != theirs.scores[column]:
            said = f"{column} is {theirs.scores[column]} there and {ours.scores[column]} elsewhere"
            raise RelposError(f"{where}: {said}; `relpos record-scores` corrects one of them")
    # A row without scores here has no time, and is the older one.
    last = max(ours, theirs, key=lambda recorded: recorded.recorded or "")
    return replace(last, scores=ours.scores | theirs.scores)


def with_scores(rows: Sequence[Row], folder: Path) -> list[Row]:
    """The rows with the server's scores: in `test` of each column, of the mean, and of the row.

    Raises:
        RelposError: `scores.json` is damaged.
    """
    recorded = read_scores(folder)
    return [_with_scores(row, recorded[row.name].scores) if row.name in recorded else row for row in rows]


def _with_scores(row: Row, scores: Mapping[str, float]) -> Row:
    columns = {name: replace(column, test=scores.get(name, column.test)) for name, column in row.columns.items()}
    # Of the columns whose mean it is: a table without a task of the nine has a mean of fewer, also of the server's scores.
    mean = replace(row.mean, test=mean_if_all([scores.get(name) for name in row.mean.of or GLUE]))
    # In the server's order, whatever order they were typed in.
    test: dict[str, float | None] = {name: scores[name] for name in COLUMNS if name in scores}
    return replace(row, columns=columns, mean=mean, test=test | {"glue": mean_if_all([scores.get(name) for name in GLUE])})
