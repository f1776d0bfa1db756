"""`relpos record-scores`: what the GLUE server answered goes into the table."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relpos.errors import RelposError
from relpos.files import write_json
from relpos.tables.columns import printed_numbers
from relpos.tables.comparison import with_comparisons
from relpos.tables.experiment import load
from relpos.tables.glue_server import file_name
from relpos.tables.render import text, write
from relpos.tables.row_runs import row_of, written
from relpos.tables.scores import COLUMNS, FILE, SIGNED, read_scores, with_scores

if TYPE_CHECKING:
    from omegaconf import DictConfig


def record_scores(cfg: DictConfig) -> str:
    """`relpos record-scores`: adds what the server answered to `scores.json` and writes the table anew.

    Args:
        cfg: `table`, `row`, and columns: one number, or two (MRPC, QQP, STS-B) of which the mean counts.

    Returns:
        the folder of the table.

    Raises:
        RelposError: no score, or one that is none.
    """
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
    write.write(folder, content)
    text.terminal(content)
    return str(folder)


def _judged_anew(table: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with differences and verdicts that know the new scores; as they were where the experiment file is gone."""
    try:
        given = load(table)
    except RelposError as error:
        print(f"relpos: verdicts stay as they were: {error}", file=sys.stderr)
        return rows
    return with_comparisons(rows, given, printed_numbers(given))


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
