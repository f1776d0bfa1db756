"""One cell of a table as text: the same words on the terminal, in Markdown and on the page."""

from __future__ import annotations

from dataclasses import dataclass

from relpos.tables.table import Column

MISSING = "—"
MINUS = "−"


@dataclass(frozen=True)
class Cell:
    """A column of a row, and whether it is the best of the table.

    >>> Cell(Column(values=[30.4, 32.0], mean=31.2, sem=0.8, best=32.0)).text
    '31.2 ± 0.8 (32.0)'
    """

    column: Column
    is_best: bool = False

    @property
    def text(self) -> str:
        """`31.2 ± 0.4 (32.0)`: mean, standard error, best; then what went wrong."""
        column = self.column
        if column.mean is None:
            return self.counts or MISSING
        best = f" ({self.number(column.best)})" if column.best is not None else ""
        spread = f" ± {self.number(column.sem)}{best}" if column.sem is not None else ""
        return f"{self.number(column.mean)}{spread}{', ' + self.counts if self.counts else ''}"

    def number(self, value: float | None) -> str:
        """A number of this column, with its decimals."""
        return number(value, self.column.decimals)

    @property
    def counts(self) -> str:
        """`n=9, 1 failed, 2 collapsed`; empty where every run is finished and better than the constant answer."""
        column = self.column
        # The number of runs is worth its room only where it is not the planned one.
        is_whole = not (column.n_failed or column.n_missing)
        finished = [] if is_whole or not column.values else [f"n={len(column.values)}"]
        wrong = [f"{count} {word}" for count, word in ((column.n_failed, "failed"), (column.n_collapsed, "collapsed")) if count]
        return ", ".join(finished + wrong)

    @property
    def comparison(self) -> str:
        """`40.9 ± 0.5 (+0.3) reproduced`: the paper's number, ours minus it, the verdict; empty where nothing is printed."""
        column = self.column
        if column.printed is None:
            return ""
        printed = number(column.printed) + (f" ± {column.printed_sem:.1f}" if column.printed_sem is not None else "")
        difference = f" ({signed(column.difference)})" if column.difference is not None else ""
        return f"{printed}{difference}{' ' + column.verdict if column.verdict else ''}"

    @property
    def delta(self) -> str:
        """`+2.1 (+3.4 %) * printed +4.1`: ours minus the baseline row's, per cent of its errors, a star where Holm's p is below
        0.05, and the same difference of the printed numbers.
        """
        column = self.column
        if column.delta is None:
            return MISSING
        percent = f" ({signed(column.delta_percent)} %)" if column.delta_percent is not None else ""
        star = " *" if column.delta_p_holm is not None and column.delta_p_holm < 0.05 else ""
        printed = f" printed {signed(column.delta_printed)}" if column.delta_printed is not None else ""
        return f"{signed(column.delta, column.decimals)}{percent}{star}{printed}"


def number(value: float | None, decimals: int = 1) -> str:
    """A number with its decimals, or the sign of what is missing; no sign before a zero.

    >>> number(31.25), number(-1e-8, 3), number(None)
    ('31.2', '0.000', '—')
    """
    return MISSING if value is None else f"{value:z.{decimals}f}"


def signed(value: float | None, decimals: int = 1) -> str:
    """A number with its decimals after + or −; no sign before a zero.

    >>> signed(1.04), signed(-0.26), signed(-0.04)
    ('+1.0', '−0.3', '0.0')
    """
    if value is None:
        return MISSING
    text = f"{abs(value):.{decimals}f}"
    # By the rounded text: what rounds to zero has no sign.
    return text if not float(text) else f"{'+' if value > 0 else MINUS}{text}"
