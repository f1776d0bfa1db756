"""The contents of a table as it is shown: built once, read by the terminal, Markdown, CSV, LaTeX and the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from relpos.measures.measure import measured_columns
from relpos.results.plateau import NONE, PLATEAU
from relpos.results.scale import MEAN, SHORT_TRAVEL, named, short_travel
from relpos.results.values import GLUE
from relpos.tables.render.cells import (
    MISSING,
    Cell,
    SideTable,
    TableColumn,
    by_multiplier,
    by_snapshot,
    deltas,
    losses_by_length,
    losses_by_step,
    plain_column,
    printed,
    score_column,
    server,
    sweeps,
    title,
)
from relpos.tables.table import PLAIN, Column, Row, Table

NOTE = (
    "Columns × 100 on the dev sets. Mean ± standard error over seeds where there are several, the best in brackets (of the mean "
    f"over columns, the mean of their bests); {MISSING} = not run."
)


@dataclass(frozen=True)
class View:
    """A table, ready to be shown.

    Args:
        table: the table that is shown.
        columns: plain ones; those about order, GLUE's in their order, others; the mean over GLUE's.
        in_cells: the paper's numbers, which the page shows in the cells instead.
        side_tables: those that are shown in every format.
        by_step: held-out losses during training; None if there are none. The page shows them as a figure.
    """

    table: Table
    columns: list[TableColumn]
    in_cells: list[SideTable]
    side_tables: list[SideTable]
    by_step: SideTable | None

    @property
    def lines(self) -> list[tuple[Row, tuple[Cell, ...]]]:
        """The rows, each with its cells."""
        return list(zip(self.table.rows, zip(*(column.cells for column in self.columns), strict=True), strict=True))

    @property
    def texts(self) -> list[list[str]]:
        """Line by line, the heads first, the names of the rows in front."""
        heads = ["row", *(column.title for column in self.columns)]
        return [heads, *([row.name, *(cell.text for cell in cells)] for row, cells in self.lines)]

    @property
    def is_best(self) -> list[list[bool]]:
        """For each of the texts of the rows, whether it is the best of its column."""
        return [[False, *(cell.is_best for cell in cells)] for _, cells in self.lines]

    @property
    def scores(self) -> list[TableColumn]:
        """The columns of scores."""
        return [column for column in self.columns if column.scores]

    @property
    def made_with(self) -> str:
        """What was typed in place of what the experiment file says; empty where nothing was."""
        typed = " ".join(self.table.changes)
        return f"Made with {typed} in place of what the experiment file says." if typed else ""

    @property
    def caption(self) -> str:
        """What stands below the columns as text; empty where there are none."""
        return f"{NOTE} {self.notes}".rstrip() if self.scores else ""

    @property
    def notes(self) -> str:
        """What stands below the table in every format; empty if there is nothing to say."""
        of_order = (self.note, self.parts, self.plateau, self.order_known, self.order_found)
        return " ".join(filter(None, (*of_order, self.position_lr, self.travel_note, self.table.made)))

    @property
    def note(self) -> str | None:
        """Explains the columns that were measured of the networks; None if there are none."""
        names = {column.name for column in self.columns}
        notes = [measure.note for name, (measure, _) in measured_columns().items() if name in names]
        return " ".join(filter(None, dict.fromkeys(notes))) or None

    @property
    def parts(self) -> str | None:
        """Names the tasks that were trained on less than the official release has; None if there are none.

        >>> view_of(Table("t", "?", [Row("fixed", parts={"qqp": (23497, 363846)})])).parts.partition(": ")[2]
        'qqp (23,497 of 363,846).'
        """
        found = {task: f"{task} ({part:,} of {of:,})" for row in self.table.rows for task, (part, of) in row.parts.items()}
        why = "Fine-tuned on a part of the official training examples, so that scores do not compare with published ones"
        return f"{why}: {', '.join(found.values())}." if found else None

    @property
    def plateau(self) -> str | None:
        """Names the rows on the bag-of-words plateau; None where it is not known of any row.

        >>> print(view_of(Table("t", "?", [Row("none", on_plateau=True), Row("rope", on_plateau=False)])).plateau)
        On the bag-of-words plateau (no lead over none or no shuffle gap above 0.1 nats beyond noise, or too little order): none.
        """
        known = {row.name: row.on_plateau for row in self.table.rows if row.on_plateau is not None}
        on_it = [name for name, is_on in known.items() if is_on]
        return f"On the bag-of-words plateau ({PLATEAU}): {', '.join(on_it) or 'no row'}." if known else None

    @property
    def order_known(self) -> str | None:
        """How much of the order that the best row knows each row knows; None where it is not known of any row.

        >>> view_of(Table("t", "?", [Row("none", order_known=0.0), Row("rope", order_known=1.0)])).order_known
        'Order known, (loss of none − loss) ÷ (loss of none − lowest loss): none 0 %, rope 100 %.'
        """
        known = [f"{row.name} {row.order_known:.0%}" for row in self.table.rows if row.order_known is not None]
        how = f"(loss of {NONE} − loss) ÷ (loss of {NONE} − lowest loss)"
        return f"Order known, {how}: {', '.join(known).replace('%', ' %')}." if known else None

    @property
    def order_found(self) -> str | None:
        """When each row that knows half of the order has found it; None where no row does.

        >>> from relpos.results.plateau import Found
        >>> rows = [Row("none", order_found=Found(None, 8e6, None)), Row("rope", order_found=Found(2.6e6, 2e6, 4e6))]
        >>> print(view_of(Table("t", "?", rows)).order_found)
        Half of it was known after so many million tokens, padding included: none later than 8, rope 2.6 (2 to 4).
        """
        found = {row.name: row.order_found for row in self.table.rows if row.order_found}
        if not any(each.tokens for each in found.values()):
            return None
        millions = {name: [None if each is None else f"{each / 1e6:.3g}" for each in where] for name, where in found.items()}
        told = [
            f"{name} {at} ({low} to {high})" if at else f"{name} later than {low}" for name, (at, low, high) in millions.items()
        ]
        return f"Half of it was known after so many million tokens, padding included: {', '.join(told)}."

    @property
    def travel_note(self) -> str | None:
        """Names the rows whose position parameters could not move far, beside printed numbers."""
        if all(score.difference is None for column in self.scores for score in column.scores):
            return None
        short = {row.name: row.travel for row in self.table.rows if (row.travel or SHORT_TRAVEL) < SHORT_TRAVEL}
        return f"In {', '.join(short)} {short_travel(short.values())}." if short else None

    @property
    def position_lr(self) -> str | None:
        """Which rows have a `position_lr` of their own, and where it was chosen; None if none has, or if the table sweeps it.

        >>> rows = [Row("a"), Row("b", position_lr=10.0), Row("c", position_lr=(1.0, 30.0), conv_lr=3.0)]
        >>> view_of(Table("t", "?", rows, tuned="sweep")).position_lr
        'position_lr, chosen in table sweep: 10 for b, 1 + 30 (conv_lr 3) for c, 1 for the others.'
        """
        names: dict[str, list[str]] = {}
        for row in self.table.rows:
            own = f" (conv_lr {row.conv_lr:g})" if row.conv_lr is not None else ""
            rates = row.position_lr if isinstance(row.position_lr, tuple) else (row.position_lr,)
            names.setdefault(f"{' + '.join(f'{rate:g}' for rate in rates)}{own}", []).append(row.name)
        plain = names.pop("1", [])
        # A sweep shows every rate in a table of its own.
        if not names or sweeps(self.table.rows):
            return None
        if not plain and len(names) == 1:
            said = f"{next(iter(names))} for all rows"
        else:
            parts = [f"{multiplier} for {', '.join(some)}" for multiplier, some in names.items()]
            said = ", ".join([*parts, *(["1 for the others"] if plain else [])])
        return f"position_lr{f', chosen in table {self.table.tuned}' if self.table.tuned else ''}: {said}."


def view_of(table: Table, more: Sequence[SideTable] = ()) -> View:
    """Builds the view: columns, cells, the best of them, side tables; `more` are additional side tables, which come first."""
    rows, names = table.rows, columns_of(table.rows)
    scores = [score_column(name, title(name), [row.columns.get(name, Column()) for row in rows]) for name in names]
    if mean := mean_name(names):
        scores.append(score_column(mean.lower().replace(" ", "_"), mean, [row.mean for row in rows]))
    side_tables = [server(rows), *more, deltas(scores, rows), losses_by_length(rows), *by_snapshot(rows), by_multiplier(rows)]
    return View(
        table=table,
        columns=[*(plain_column(plain, rows) for plain in PLAIN), *scores],
        in_cells=[table for table in (printed(scores, rows),) if table is not None],
        side_tables=[table for table in side_tables if table is not None],
        by_step=losses_by_step(rows),
    )


def columns_of(rows: Iterable[Row]) -> list[str]:
    """The columns of a table: those about order, GLUE's in their order, then others.

    >>> columns_of([Row("a", columns={"wnli": Column(), "rte": Column(), "cola": Column()})])
    ['cola', 'rte', 'wnli']
    """
    names = dict.fromkeys(name for row in rows for name in row.columns)
    in_order = [*measured_columns(), *GLUE]
    return sorted(names, key=lambda name: in_order.index(name) if name in in_order else len(in_order))


def mean_name(columns: Iterable[str]) -> str | None:
    """`GLUE` for the mean of all nine columns, else `mean of N`; None where a table has none of them.

    >>> mean_name(["cola", "rte", "wnli"])  # WNLI is in no mean
    'mean of 2'
    """
    count = len(named(MEAN, set(columns)))
    return "GLUE" if count == len(GLUE) else f"mean of {count}" if count else None
