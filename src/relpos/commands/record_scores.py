"""`relpos record-scores`: puts the GLUE server's scores into the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from relpos.errors import RelposError
from relpos.files import write_json
from relpos.tables.choice import by_choice
from relpos.tables.comparison import with_comparisons
from relpos.tables.experiment import load, printed_numbers
from relpos.tables.glue_server import COLUMNS, FILE, SIGNED, read_scores, with_scores
from relpos.tables.render import text
from relpos.tables.render.view import view_of
from relpos.tables.table import written


def record_scores(table: str, row: str, **scores: str | float | Sequence[float] | None) -> str:
    """`relpos record-scores`: adds the server's scores to `scores.json` and writes the table anew.

    Returns:
        the folder of the table.

    Raises:
        RelposError: no score is given, or something that is not a score.
    """
    (folder, content), experiment = written(table), load(table)
    of_row = content.row(row)
    new = {column: _score(column, score) for column in COLUMNS if (score := scores[column]) is not None}
    if not new:
        raise RelposError(f"no score given: relpos record-scores table={table} row={row} cola=… of {', '.join(COLUMNS)}")
    # One score may be as small; where all are, they are fractions. Zero, of a constant answer, is zero in both.
    if any(new.values()) and all(abs(score) <= 1 for score in new.values()):
        raise RelposError("scores are × 100: cola=41.2, not cola=0.412")
    # Added to those of earlier calls: the server's answers may come one task at a time.
    recorded = read_scores(folder)
    write_json(folder / FILE, recorded | {of_row.name: recorded.get(of_row.name, {}) | new})
    rows = with_comparisons(with_scores(content.rows, folder), experiment, printed_numbers(experiment))
    view = view_of(replace(content, rows=rows), by_choice(rows, experiment))
    text.write(folder, view)
    text.terminal(view)
    return str(folder)


def _score(column: str, typed: str | float | Iterable[float]) -> float:
    """A number, or the mean of two: `88.1/84.0` or `[88.1,84.0]`."""
    parts = typed.split("/") if isinstance(typed, str) else [typed] if isinstance(typed, int | float) else list(typed)
    low = -100.0 if column in SIGNED else 0.0
    try:
        values = [float(part) for part in parts]
    except (TypeError, ValueError):
        raise RelposError(f"{column}={typed}: a number is expected, or two as in 88.1/84.0") from None
    if not 1 <= len(values) <= 2 or isinstance(typed, bool) or not all(low <= value <= 100 for value in values):
        raise RelposError(f"{column}={typed}: a number from {low:g} to 100 is expected, or two as in 88.1/84.0")
    return sum(values) / len(values)
