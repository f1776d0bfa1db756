"""The content of a table that terminal, Markdown, CSV, LaTeX and the page show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from relpos.measures.measure import measured_columns
from relpos.results.gain import says_nothing
from relpos.results.plateau import NONE, PLATEAU
from relpos.results.scale import MEAN, columns_named
from relpos.results.values import GLUE
from relpos.tables.render.cells import (
    MISSING,
    Cell,
    SideTable,
    TableColumn,
    by_multiplier,
    by_snapshot,
    comparison,
    delta,
    learnt,
    losses_by_length,
    losses_by_step,
    of_scores,
    order_and_rate,
    plain_column,
    runs_column,
    score_column,
    server,
    title,
)
from relpos.tables.table import PLAIN, Column, Row, Table

PRINTED = "printed (ours − printed) inside or outside our 95 % interval"
DELTAS = "Δ to the baseline row (in per cent of its errors; * p < 0.05, Holm)"


@dataclass(frozen=True)
class View:
    """A table, ready to be shown.

    Args:
        table: the table that is shown.
        columns: plain ones; those about order, GLUE's in their order, others; the mean over GLUE's.
        in_cells: the paper's numbers as a side table; the page shows them in the cells instead.
        side_tables: side tables of every format.
        by_step: held-out losses during training, or None.
    """

    table: Table
    columns: list[TableColumn]
    in_cells: list[SideTable]
    side_tables: list[SideTable]
    by_step: SideTable | None

    @property
    def lines(self) -> list[tuple[Row, tuple[Cell, ...]]]:
        """The rows with their cells."""
        cells = zip(*(column.cells for column in self.columns), strict=True)
        return list(zip(self.table.rows, cells, strict=True))

    @property
    def heads(self) -> list[str]:
        """The heads of the columns, and of the names of the rows in front of them."""
        return ["row", *(column.title for column in self.columns)]

    @property
    def below(self) -> list[SideTable]:
        """The tables below the table where the paper's numbers do not stand in its cells."""
        return self.in_cells + self.side_tables

    @property
    def scores(self) -> list[TableColumn]:
        """The columns of scores."""
        return [column for column in self.columns if column.scores]

    @property
    def made_with(self) -> str:
        """A sentence about the command line's changes to the experiment file; empty without
        changes."""
        typed = " ".join(self.table.changes)
        if not typed:
            return ""
        return f"Made with {typed} in place of what the experiment file says."

    @property
    def notes(self) -> list[str]:
        """Notes below the table in every format: on the meaning of its columns, on rows with
        exceptions, and, last, on the machines and versions of its runs.
        """
        notes = (*self._meanings, *self._of_rows, self.table.made)
        return list(filter(None, notes))

    @property
    def _meanings(self) -> Iterator[str]:
        """Notes on the columns of this table."""
        scores = [score for column in self.scores for score in column.scores]
        if any(column.name not in measured_columns() for column in self.scores):
            yield "Scores × 100 on the dev sets."
        if with_error := [score for score in scores if score.sem is not None]:
            note = "Mean ± standard error over seeds"
            if any(score.best is not None for score in with_error):
                note += " (the best)"
                if any(score.of for score in scores):
                    note += "; of the mean over columns, the mean of their bests"
            yield f"{note}."
        if stages := {run.stage for row in self.table.rows for run in row.runs}:
            tunings = " × fine-tunings of one on a task" if "finetune" in stages else ""
            yield f"n = finished pre-trainings{tunings}."
        if any(cell.text == MISSING for column in self.columns for cell in column.cells):
            yield f"{MISSING} = not run."
        names = {column.name for column in self.columns}
        notes = [measure.note for name, (measure, _) in measured_columns().items() if name in names]
        yield from dict.fromkeys(notes)

    @property
    def _of_rows(self) -> Iterator[str]:
        """Notes on what some rows of this table have."""
        rows = self.table.rows
        if any(row.order_known is not None for row in rows):
            yield f"Order known: (loss of {NONE} − loss) ÷ (loss of {NONE} − lowest loss)."
        if any(row.on_plateau for row in rows):
            yield f"Plateau: on the bag-of-words plateau, {PLATEAU}."
        if any(row.order_found and row.order_found.tokens for row in rows):
            yield "Half known after so many million tokens, padding included; in brackets the evaluations around it."
        parts = {
            task: f"{task} ({part:,} of {of:,})"
            for row in rows
            for task, (part, of) in row.parts.items()
        }
        if parts:
            why = "Fine-tuned on a part of the official training examples, so that scores do not compare with published ones"
            yield f"{why}: {', '.join(parts.values())}."
        silent = []
        for column in self.scores:
            learnt = [score.learnt_interval for score in column.scores if score.learnt is not None]
            if says_nothing([interval and interval[0] for interval in learnt]):
                silent.append(column.title)
        if silent:
            where = "No row is surely ahead of the one that was not pre-trained in"
            yield f"{where} {', '.join(silent)}, which so say nothing about pre-training."
        if self.table.tuned and any(
            row.position_lr != 1 or row.conv_lr is not None for row in rows
        ):
            yield f"position_lr was chosen in table {self.table.tuned}."


def view_of(table: Table, more: Sequence[SideTable] = ()) -> View:
    """Builds the view of a table: columns, cells, the best of them, side tables; those in `more`
    are added."""
    rows, names = table.rows, columns_of(table.rows)
    scores = [
        score_column(name, title(name), [row.columns.get(name, Column()) for row in rows])
        for name in names
    ]
    if mean := mean_name(names):
        scores.append(
            score_column(mean.lower().replace(" ", "_"), mean, [row.mean for row in rows])
        )
    columns = [*(plain_column(plain, rows) for plain in PLAIN), runs_column(rows), *scores]
    side_tables = [
        order_and_rate(rows),
        server(rows),
        *more,
        of_scores(DELTAS, scores, rows, delta),
        of_scores("above not pre-trained (95 % interval)", scores, rows, learnt),
        losses_by_length(rows),
        *by_snapshot(rows),
        by_multiplier(rows),
    ]
    return View(
        table=table,
        columns=[column for column in columns if column.is_known],
        in_cells=list(filter(None, [of_scores(PRINTED, scores, rows, comparison)])),
        side_tables=list(filter(None, side_tables)),
        by_step=losses_by_step(rows),
    )


def columns_of(rows: Iterable[Row]) -> list[str]:
    """The columns of a table: those about order, GLUE's in their order, then others.

    >>> columns_of([Row("a", columns={"wnli": Column(), "rte": Column(), "cola": Column()})])
    ['cola', 'rte', 'wnli']
    """
    names = dict.fromkeys(name for row in rows for name in row.columns)
    in_order = [*measured_columns(), *GLUE]
    return sorted(
        names, key=lambda name: in_order.index(name) if name in in_order else len(in_order)
    )


def mean_name(columns: Iterable[str]) -> str | None:
    """`GLUE` for the mean of all nine columns, else `mean of N`; None for a table without any of
    them.

    >>> mean_name(["cola", "rte", "wnli"])  # WNLI is in no mean
    'mean of 2'
    """
    count = len(columns_named(MEAN, set(columns)))
    if count == len(GLUE):
        return "GLUE"
    return f"mean of {count}" if count else None
