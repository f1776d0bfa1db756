"""One cell of a table, read from `table.json`: whatever of it is there. What is absent is None, as is a number that is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from relpos.tables.columns import GLUE, mean_of

NAMES = {"cola": "CoLA", "mnli_m": "MNLI-m", "mnli_mm": "MNLI-mm", "mrpc": "MRPC", "qnli": "QNLI", "qqp": "QQP"}
NAMES |= {"rte": "RTE", "sst2": "SST-2", "stsb": "STS-B", "wnli": "WNLI", "ax": "AX"}
MISSING = "—"
MINUS = "−"


@dataclass(frozen=True)
class Cell:
    """The figures of one column of one row, × 100.

    Args:
        values: of the runs that are there, in the order of `seeds`.
        statistic: what is compared with the printed number: mean, best or median.
        low: lower end of the 95 % interval of the mean; `high` the upper one.
        printed: the paper's number, `printed_sem` its standard error.
        difference: ours minus the paper's.
        test: what the GLUE server answered.
    """

    values: list[float]
    mean: float | None = None
    sem: float | None = None
    best: float | None = None
    median: float | None = None
    low: float | None = None
    high: float | None = None
    statistic: str = "mean"
    printed: float | None = None
    printed_sem: float | None = None
    difference: float | None = None
    verdict: str | None = None
    majority: float | None = None
    test: float | None = None
    n_failed: int = 0
    n_collapsed: int = 0
    n_missing: int = 0

    @classmethod
    def of(cls, column: dict[str, Any]) -> Cell:
        """The cell that a column of `table.json` describes."""
        plain = ("mean", "sem", "best", "median", "verdict", "majority", "test")
        known: dict[str, Any] = {key: column.get(key) for key in plain}
        known |= {key: column.get(key) or 0 for key in ("n_failed", "n_collapsed", "n_missing")}
        known["values"] = column.get("values") or []
        known["low"], known["high"] = column.get("interval") or (None, None)
        known["printed"], known["printed_sem"] = _printed(column)
        known["statistic"] = column.get("statistic") or "mean"
        known["difference"] = column.get("difference")
        ours = known.get(known["statistic"])
        if known["difference"] is None and ours is not None and known["printed"] is not None:
            known["difference"] = ours - known["printed"]
        return cls(**known)

    @property
    def counts(self) -> str:
        """`n=9, 1 failed, 2 collapsed`; empty where every run is there and well."""
        whole = not (self.n_failed or self.n_missing)
        words = [] if whole or not self.values else [f"n={len(self.values)}"]
        words += [f"{count} {word}" for count, word in ((self.n_failed, "failed"), (self.n_collapsed, "collapsed")) if count]
        return ", ".join(words)

    @property
    def text(self) -> str:
        """`31.2 ± 0.4 (32.0)`: mean, standard error, best; then what went wrong."""
        if self.mean is None:
            return self.counts or MISSING
        spread = f" ± {self.sem:.1f} ({number(self.best)})" if self.sem is not None else ""
        return f"{self.mean:.1f}{spread}{', ' + self.counts if self.counts else ''}"

    @property
    def beside(self) -> str:
        """`40.9 (+0.3) reproduced`: the paper's number, ours minus it, the verdict; empty where nothing is printed."""
        if self.printed is None:
            return ""
        printed = number(self.printed) + (f" ± {self.printed_sem:.1f}" if self.printed_sem is not None else "")
        difference = f" ({signed(self.difference)})" if self.difference is not None else ""
        return f"{printed}{difference}{' ' + self.verdict if self.verdict else ''}"


def _printed(column: dict[str, Any]) -> tuple[float | None, float | None]:
    found = column.get("printed")
    if isinstance(found, dict):
        value = next((found[key] for key in ("value", "mean", "best", "median") if found.get(key) is not None), None)
        return value, found.get("sem")
    return found, column.get("printed_sem")


def number(value: float | None) -> str:
    """One decimal, or the sign of what is missing."""
    return MISSING if value is None else f"{value:.1f}"


def signed(value: float | None) -> str:
    """One decimal behind + or −; no sign before a zero."""
    if value is None:
        return MISSING
    text = f"{abs(value):.1f}"
    return text if text == "0.0" else f"{'+' if value > 0 else MINUS}{text}"


def columns_of(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The columns of a table: GLUE's in their order, then others."""
    found = list(dict.fromkeys(column for row in rows for column in row["columns"]))
    return sorted(found, key=lambda column: GLUE.index(column) if column in GLUE else len(GLUE))


def cells_of(row: dict[str, Any], names: Sequence[str]) -> list[Cell]:
    """The cells of a row: its columns, then, where there are any, their mean."""
    return [*(Cell.of(row["columns"].get(name, {})) for name in names), *([Cell.of(row["mean"])] if names else [])]


def heads_of(names: list[str]) -> list[str]:
    """The heads of these columns, then, where there are any, that of their mean."""
    return [*(NAMES.get(name, name) for name in names), *([mean_name(mean_of(names))] if names else [])]


def mean_name(columns: list[str]) -> str:
    """`GLUE` for all nine columns; else what it is."""
    return "GLUE" if len(columns) == len(GLUE) else f"mean of {len(columns)}"


def leaders(rows: list[dict[str, Any]]) -> set[tuple[int, int]]:
    """(row, cell) of the best numbers: highest means, lowest perplexity; none where a column has one value only.

    Cells count as in a printed line: row name, parameters, perplexity, columns, their mean.
    """
    columns = [[None if row.get("perplexity") is None else -row["perplexity"] for row in rows]]
    cells = [cells_of(row, columns_of(rows)) for row in rows]
    columns += [[cell.mean for cell in column] for column in zip(*cells, strict=True)]
    found = set()
    for place, values in enumerate(columns, start=2):
        known = [value for value in values if value is not None]
        found |= {(row, place) for row, value in enumerate(values) if len(set(known)) > 1 and value == max(known)}
    return found
