"""The answers that fine-tunings kept on the dev sets, scores on halves of them, and rows that are chosen by these."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relpos.errors import RelposError, one_line
from relpos.readers import check_recorded, read_text

Halves = tuple[float, float]
"""The score × 100 on the even and on the odd examples of a dev set."""


def best_on_halves(rows: Mapping[str, Halves]) -> list[str]:
    """The row that is best on even examples, and the one that is best on odd ones; of equal ones the first."""
    return [max(rows, key=lambda row: rows[row][half]) for half in (0, 1)]


def halves(path: Path, metric: str) -> Halves:
    """The scores of a file of answers; `metric` is the dotted name of the function that scores them."""
    from relpos.train.metrics import applied

    columns = answers(path).T
    numbers = columns[2] if len(columns) > 2 else np.arange(columns.shape[1])  # groups stay whole
    even, odd = (100 * applied(metric, "task.metric", *columns[:, numbers % 2 == half]) for half in (0, 1))
    return even, odd


def answers(path: Path) -> NDArray[np.float64]:
    """(examples, 2 or 3): predictions and targets of a dev set, as fine-tuning wrote them, and the groups where there are some.

    Raises:
        RelposError: the file is damaged.
    """
    check_recorded(path)
    try:
        table: NDArray[np.float64] = np.loadtxt(read_text(path).splitlines(), delimiter="\t", skiprows=1, ndmin=2)
    except ValueError as error:  # no number, or a line that was cut short
        raise RelposError(f"{path}: damaged: {one_line(error)}") from error
    if not table.size:
        raise RelposError(f"{path}: damaged: it has no answers")
    return table
