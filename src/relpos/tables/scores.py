"""What the GLUE server answered: kept beside the table in `scores.json`, shown in it as `test`. Scores are × 100."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relpos.errors import RelposError
from relpos.files import write_json
from relpos.tables.records import row_of, written
from relpos.tables.submit import file_name
from relpos.tables.table import GLUE

if TYPE_CHECKING:
    from omegaconf import DictConfig

COLUMNS = (*GLUE, "wnli", "ax")
SIGNED = ("cola", "stsb", "ax")
"""Correlations: they may be below zero."""
FILE = "scores.json"


def record_scores(cfg: DictConfig) -> str:
    """`relpos record-scores`: adds what the server answered to `scores.json` and writes the table anew.

    Args:
        cfg: `table`, `row`, and columns: one number, or two (MRPC, QQP, STS-B) of which the mean counts.

    Returns:
        the folder of the table.

    Raises:
        RelposError: no score, or one that is none.
    """
    from relpos.tables import render

    folder, content = written(str(cfg.table))
    row = row_of(content, str(cfg.row))
    given = {column: _score(column, cfg[column]) for column in COLUMNS if cfg[column] is not None}
    if not given:
        raise RelposError(f"no score given: relpos record-scores table={cfg.table} row={cfg.row} cola=… of {', '.join(COLUMNS)}")
    if all(abs(value) <= 1 for value in given.values()):
        raise RelposError("scores are × 100: cola=41.2, not cola=0.412")
    before = read_scores(folder)
    words = {"scores": before.get(row["name"], {}).get("scores", {}) | given, "submission": _submission(folder, row["name"])}
    words["recorded"] = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(folder / FILE, before | {row["name"]: words})
    content["rows"] = _judged_anew(str(cfg.table), with_scores(content["rows"], folder))
    render.write(folder, content)
    render.terminal(content)
    return str(folder)


def _judged_anew(table: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with differences and verdicts that know the new scores; as they were where the experiment file is gone."""
    from relpos.tables.beside import with_comparisons
    from relpos.tables.experiment import load
    from relpos.tables.table import printed_numbers

    try:
        given = load(table)
    except RelposError as error:
        print(f"relpos: verdicts stay as they were: {error}", file=sys.stderr)
        return rows
    return with_comparisons(rows, given, printed_numbers(given))


def read_scores(folder: Path) -> dict[str, Any]:
    """Row → what is recorded of it; empty where nothing is."""
    try:
        return dict(json.loads((folder / FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}


def with_scores(rows: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """The rows with what the server answered: each column's in its `test`, their mean in that of the mean, all in the row's own."""
    recorded = read_scores(folder)
    return [_with(row, recorded[row["name"]]["scores"]) if row["name"] in recorded else row for row in rows]


def _with(row: dict[str, Any], scores: dict[str, float]) -> dict[str, Any]:
    columns = {name: column | ({"test": scores[name]} if name in scores else {}) for name, column in row["columns"].items()}
    mean = row["mean"] | {"test": _mean(scores, row["mean"].get("of") or GLUE)}
    test = {name: scores[name] for name in COLUMNS if name in scores} | {"glue": _mean(scores, GLUE)}
    return row | {"columns": columns, "mean": mean, "test": test}


def _mean(scores: dict[str, float], names: Iterable[str]) -> float | None:
    """None where one of them is missing."""
    found = [scores.get(name) for name in names]
    known = [score for score in found if score is not None]
    return sum(known) / len(known) if len(known) == len(found) else None


def _score(column: str, given: Any) -> float:
    """A number, or the mean of two: `88.1/84.0` or `[88.1,84.0]`."""
    parts = given.split("/") if isinstance(given, str) else list(given) if not isinstance(given, int | float) else [given]
    low = -100.0 if column in SIGNED else 0.0
    try:
        values = [float(part) for part in parts]
    except (TypeError, ValueError):
        raise RelposError(f"{column}={given}: a number is expected, or two as in 88.1/84.0") from None
    if not 1 <= len(values) <= 2 or isinstance(given, bool) or not all(low <= value <= 100 for value in values):
        raise RelposError(f"{column}={given}: a number from {low:g} to 100 is expected, or two as in 88.1/84.0")
    return sum(values) / len(values)


def _submission(folder: Path, row: str) -> str | None:
    """SHA-256 of the zip that lies there."""
    try:
        return str(json.loads((folder / "submissions" / f"{file_name(row)}.json").read_text(encoding="utf-8"))["sha256"])
    except FileNotFoundError:
        return None
