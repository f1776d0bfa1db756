"""Smaller tables of the same rows: the printed numbers, the GLUE server's, differences to the baseline, losses at other lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from relpos.measures.measure import measured_columns
from relpos.results.values import GLUE
from relpos.tables.render.cell import MISSING, Cell, number
from relpos.tables.table import Column, Row

NAMES = {"cola": "CoLA", "mnli_m": "MNLI-m", "mnli_mm": "MNLI-mm", "mrpc": "MRPC", "qnli": "QNLI", "qqp": "QQP"}
NAMES |= {"rte": "RTE", "sst2": "SST-2", "stsb": "STS-B", "wnli": "WNLI", "ax": "AX"}
PRINTED = "printed (ours − printed) verdict"
SERVER = "GLUE server (test)"
DELTA = "Δ to the baseline row (in per cent of its errors; * p < 0.05, Holm)"
LENGTHS = "held-out loss at length"
STEPS = "held-out loss at step"
MULTIPLIERS = "held-out loss at position_lr"
MOST_STEPS = 12
"""Columns of a table along the training; the picture beside it, and table.json, have all evaluations."""


def title(column: str, other: str | None = None) -> str:
    """The head of a column: of a GLUE column, or of one that a measure gives; of any other column `other`, by default its name."""
    of_measures = {name: kind.title for name, (_, kind) in measured_columns().items()}
    return (NAMES | of_measures).get(column, other or column)


@dataclass(frozen=True)
class SideTable:
    """Text alone.

    Args:
        title: what it shows; it stands over the names of the rows.
        heads: of the columns.
        lines: name of the row → its texts.
    """

    title: str
    heads: list[str]
    lines: list[tuple[str, list[str]]]

    @property
    def texts(self) -> list[list[str]]:
        """Line by line, the heads first, the names of the rows in front."""
        return [[self.title, *self.heads], *([name, *line] for name, line in self.lines)]


def printed(heads: list[str], cells: Sequence[tuple[str, list[Cell]]]) -> SideTable | None:
    """The paper's numbers with differences and verdicts; None where nothing is printed."""
    if all(cell.column.printed is None for _, line in cells for cell in line):
        return None
    return SideTable(PRINTED, heads, [(name, [cell.comparison or MISSING for cell in line]) for name, line in cells])


def server(rows: Sequence[Row]) -> SideTable | None:
    """What the GLUE server answered, for the rows that were sent; None where none was."""
    names = [name for name in (*GLUE, "wnli", "ax", "glue") if any(row.test.get(name) is not None for row in rows)]
    heads = [title(name, name.upper()) for name in names]
    lines = [(row.name, [number(row.test.get(name)) for name in names]) for row in rows if row.test]
    return SideTable(SERVER, heads, lines) if names else None


def deltas(heads: list[str], cells: Sequence[tuple[str, list[Cell]]]) -> SideTable | None:
    """Differences to the baseline row; None where there is none."""
    if all(cell.column.delta is None for _, line in cells for cell in line):
        return None
    return SideTable(DELTA, heads, [(name, [cell.delta for cell in line]) for name, line in cells])


def losses_by_length(rows: Sequence[Row]) -> SideTable | None:
    """Nats per predicted token; None where no lengths were measured."""
    lengths = list(dict.fromkeys(length for row in rows for length in row.heldout_by_length))
    lines = [(row.name, [_loss(row.heldout_by_length.get(length)) for length in lengths]) for row in rows]
    return SideTable(LENGTHS, lengths, lines) if lengths else None


def losses_by_step(rows: Sequence[Row]) -> SideTable | None:
    """Nats per predicted token along the way, at steps that every row has, evenly in their logarithm; None where there are none."""
    curves = [(row.name, dict(row.heldout_loss)) for row in rows]
    # Rows of different lengths are compared where all of them are.
    steps = [step for step in curves[0][1] if all(step in curve for _, curve in curves)] if curves else []
    if len(steps) > MOST_STEPS:
        steps = sorted({min(steps, key=lambda step: abs(step - even)) for even in np.geomspace(steps[0], steps[-1], MOST_STEPS)})
    lines = [(name, [_loss(curve[step]) for step in steps]) for name, curve in curves]
    return SideTable(STEPS, [str(step) for step in steps], lines) if steps else None


def by_snapshot(rows: Sequence[Row]) -> list[SideTable]:
    """A table for each column about order, along the pre-training; none where no snapshots were measured."""
    percents = sorted({percent for row in rows for percent in row.snapshots})
    columns = [(name, column) for row in rows for then in row.snapshots.values() for name, column in then.items()]
    # A measure that failed everywhere would be a table of dashes.
    names = dict.fromkeys(name for name, column in columns if column.mean is not None)
    return [
        SideTable(
            f"{title(name)} at per cent of the steps",
            [f"{percent} %" for percent in percents],
            [(row.name, [_point(row.snapshots.get(percent, {}).get(name)) for percent in percents]) for row in rows],
        )
        for name in names
    ]


def by_multiplier(rows: Sequence[Row]) -> SideTable | None:
    """The last held-out loss of rows that differ in `position_lr` or `conv_lr` alone; None where there are none."""
    kinds = sweeps(rows)
    heads = sorted({multiplier for losses in kinds.values() for multiplier in losses})
    lines = [(kind, [_loss(losses.get(multiplier)) for multiplier in heads]) for kind, losses in kinds.items()]
    return SideTable(MULTIPLIERS, [f"{multiplier:g}" for multiplier in heads], lines) if lines else None


def sweeps(rows: Sequence[Row]) -> dict[str, dict[float, float]]:
    """Overrides of the rows but the multiplier → multiplier → last held-out loss, for overrides with several multipliers.

    The multiplier is `conv_lr` where the convolution has one of its own, else `position_lr`; rows whose parts have factors of their
    own are left out.

    >>> loss = [(100, 4.5)]
    >>> sweeps([Row("a", ["position=t5"], heldout_loss=loss), Row("b", ["position=t5", "recipe.position_lr=3"], position_lr=3.0)])
    {}
    """
    kinds: dict[str, dict[float, float]] = {}
    for row in rows:
        if row.heldout_loss:
            own = "position_lr" if row.conv_lr is None else "conv_lr"
            kind = " ".join(override for override in row.overrides if f"recipe.{own}=" not in override)
            multiplier = row.position_lr if row.conv_lr is None else row.conv_lr
            if not isinstance(multiplier, tuple):
                kinds.setdefault(kind, {})[multiplier] = row.heldout_loss[-1][1]
    return {kind: losses for kind, losses in kinds.items() if len(losses) > 1}


def _point(column: Column | None) -> str:
    """`0.512 ± 0.012`"""
    # Without what failed or is missing: these are the pre-trainings, whose counts stand in the table itself.
    return MISSING if column is None else Cell(replace(column, best=None, n_failed=0, n_missing=0)).text


def _loss(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3f}"
