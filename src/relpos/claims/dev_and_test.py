"""The rule about dev sets and test sets."""

from __future__ import annotations

from collections.abc import Iterable
from math import hypot
from pathlib import Path
from statistics import fmean, stdev

from relpos.claims.requirements import Requirements
from relpos.claims.rule import Test, once, rule
from relpos.claims.verdict import Verdict, sided
from relpos.errors import RelposError, say
from relpos.results.statistics import Difference, standard_error
from relpos.results.values import GLUE
from relpos.runs.run import runs_root
from relpos.runs.table_file import FILE, read_table
from relpos.tables.row import Column, Row
from relpos.tables.table import Table

MANY = 1e9
"""Degrees of freedom of an error that is known, and not estimated from the scores."""


AFTERWARDS = "the answers to the GLUE server, and its scores to `relpos record-scores`"


@rule(
    "dev means lie above the scores that `relpos record-scores` knows",
    lambda test: Requirements(1, GLUE, len(GLUE), afterwards=AFTERWARDS),
    once,
)
def dev_above_test(test: Test) -> Verdict | None:
    """GLUE on the dev sets (mean over runs) lies above the server's score, over the rows whose server scores were recorded.

    All rows are scored on the same test sets and so are not independent: the error is that of the examples of the dev and test
    sets, which is the same for one row as for many. Holds: the 95 % interval of the mean difference over rows lies above zero.
    Fails: it lies below.
    """
    differences: dict[str, float] = {}
    errors: list[float] = []
    for path in sorted((runs_root() / "tables").glob(f"*/{FILE}")):
        for row in _rows(path.parent):
            if row.mean.test is not None and row.mean.mean is not None:
                differences[f"{path.parent.name} {row.name}"] = row.mean.mean - row.mean.test
                errors.append(_examples_error(row.columns.values()))
    if not differences:
        return None
    values = list(differences.values())
    of_rows = stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    # The largest error, not their root mean square over rows: all rows share the examples, so nothing averages out.
    tested = Difference(fmean(values), hypot(max(errors), of_rows), MANY, len(values))
    evidence = sided(tested)
    said = ", ".join(f"{name} {value:+.1f}" for name, value in differences.items())
    figures = f"dev − test: {said}; mean {tested.value:+.1f} [{tested.low:+.1f}, {tested.high:+.1f}] by the examples of both sets"
    takes = "nothing that is trained: the examples of the dev and test sets are too few"
    return Verdict(evidence.verdict, figures, "rows with recorded scores", evidence.p, takes)


def _rows(folder: Path) -> list[Row]:
    """The rows of a table; a damaged one is named on stderr and left out."""
    try:
        return read_table(folder, Table).rows
    except RelposError as error:
        say(f"relpos: {error}")
        return []


def _examples_error(columns: Iterable[Column]) -> float:
    """Standard error of a dev − test mean over columns, due to the examples; a test set is taken to be as large as its dev set."""
    errors = [
        standard_error(column.mean, column.examples, column.metric)
        for column in columns
        if column.mean is not None and column.examples and column.metric
    ]
    return 2**0.5 * hypot(*errors) / len(errors) if errors else 0.0
