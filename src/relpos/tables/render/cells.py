"""The columns of a table with the text of each cell, and its side tables: the printed numbers, the
GLUE server's, differences to the baseline row, losses at other lengths."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product

import numpy as np

from relpos.measures.measure import measured_columns
from relpos.results.scale import MEAN
from relpos.tables.experiment import SERVER_COLUMNS
from relpos.tables.table import Better, Column, PlainColumn, Row

MISSING = "—"
MINUS = "−"
NAMES = {"cola": "CoLA", "mnli_m": "MNLI-m", "mnli_mm": "MNLI-mm", "sst2": "SST-2", "stsb": "STS-B"}
NAMES |= {name: name.upper() for name in ("mrpc", "qnli", "qqp", "rte", "wnli", "ax", MEAN)}
MOST_STEPS = 12
"""The most columns of a table over the training; the figure beside it and table.json have all
evaluations."""


@dataclass(frozen=True)
class Cell:
    """The cell of a row in a column.

    Args:
        text: its text in text files and on the terminal.
        value: its number in CSV, by which rows are sorted; None if it is missing.
        column: the other figures of a score; None in a plain column.
        note: a line that the page shows below it.
        is_best: whether it is the best of its column.
    """

    text: str
    value: float | None
    column: Column | None = None
    note: str = ""
    is_best: bool = False


@dataclass(frozen=True)
class TableColumn:
    """A column, which every format of a table shows.

    Args:
        name: its name in CSV files and on dashboards.
        title: its head.
        better: which values are better; None if neither are.
        cells: one for each row.
    """

    name: str
    title: str
    better: Better | None
    cells: list[Cell]

    @property
    def scores(self) -> list[Column]:
        """The figures of its scores; empty for a plain column."""
        return [cell.column for cell in self.cells if cell.column is not None]

    @property
    def is_known(self) -> bool:
        """Whether it has any content: a number, the state of a run, or a printed number."""
        printed = any(score.printed is not None for score in self.scores)
        return printed or any(cell.text != MISSING for cell in self.cells)


def plain_column(plain: PlainColumn, rows: Sequence[Row]) -> TableColumn:
    """A column with one number for each row."""
    cells = []
    for row in rows:
        value = getattr(row, plain.name)
        below = getattr(row, plain.below, None)
        note = ""
        if below is not None:
            note = f"{plain.form.format(below)} {plain.below.replace('_', ' ')}"
        text = MISSING if value is None else plain.form.format(value)
        cells.append(Cell(text, value, note=note))
    return with_best(TableColumn(plain.name, plain.name, plain.better, cells))


def runs_column(rows: Sequence[Row]) -> TableColumn:
    """The numbers of finished runs: pre-trainings, then fine-tunings of a pre-training on a task;
    `2/3` if some are missing.

    >>> from relpos.runs.table_file import RowRun
    >>> runs = [RowRun("pretrain", "a", "finished", ""), RowRun("pretrain", "b", "failed", "")]
    >>> runs_column([Row("none", runs=runs)]).cells[0].text
    '1/2'
    """
    cells = []
    for row in rows:
        states = [run.state for run in row.runs if run.is_pretraining]
        tuned: dict[object, list[str]] = {}
        for run in row.runs:
            if run.is_tuning:
                tuned.setdefault((run.task, run.pretrain_seed), []).append(run.state)
        # The task with the fewest finished runs counts.
        fewest = min(tuned.values(), key=_finished, default=[])
        counts = []
        for group in filter(None, (states, fewest)):
            of = f"/{len(group)}" if _finished(group) < len(group) else ""
            counts.append(f"{_finished(group)}{of}")
        value = _finished(states) if row.runs else None
        cells.append(Cell(" × ".join(counts) or MISSING, value))
    return TableColumn("n", "n", None, cells)


def _finished(states: Sequence[str]) -> int:
    return states.count("finished")


def score_column(name: str, title: str, columns: Sequence[Column]) -> TableColumn:
    """A column of scores, or of figures in nats, which have no best, as using more order is not
    better.

    >>> score_column("rte", "RTE", [Column(values=[30.4, 32.0], mean=31.2, sem=0.8, best=32.0)]).cells[0].text
    '31.2 ± 0.8 (32.0)'
    """
    better: Better | None = "more" if all(column.is_score for column in columns) else None
    cells = [Cell(text_of(column), column.mean, column) for column in columns]
    return with_best(TableColumn(name, title, better, cells))


def with_best(column: TableColumn) -> TableColumn:
    """The column with its best cells marked; no cell if all are the same, or only one has a
    value."""
    values = {cell.value for cell in column.cells if cell.value is not None}
    if column.better is None or len(values) < 2:
        return column
    best = max(values) if column.better == "more" else min(values)
    return replace(
        column, cells=[replace(cell, is_best=cell.value == best) for cell in column.cells]
    )


def text_of(column: Column) -> str:
    """`31.2 ± 0.4 (32.0)`: mean, standard error, best; then the counts of failed and collapsed
    runs."""
    if column.mean is None:
        return counts(column) or MISSING
    text = number(column.mean, column.decimals)
    if column.sem is not None:
        text += f" ± {number(column.sem, column.decimals)}"
        if column.best is not None:
            text += f" ({number(column.best, column.decimals)})"
    return ", ".join(filter(None, (text, counts(column))))


def counts(column: Column) -> str:
    """`n=9, 1 failed, 2 collapsed`; empty if every run is finished and beats the constant
    answer."""
    parts = []
    # The number of runs is shown only if it is not the planned one.
    if column.values and (column.n_failed or column.n_missing):
        parts.append(f"n={len(column.values)}")
    if column.n_failed:
        parts.append(f"{column.n_failed} failed")
    if column.n_collapsed:
        parts.append(f"{column.n_collapsed} collapsed")
    return ", ".join(parts)


def comparison(column: Column) -> str:
    """`40.9 ± 0.5 (+0.3) inside`: the paper's number, ours minus it, its verdict; empty without a
    printed number."""
    if column.printed is None:
        return ""
    text = number(column.printed)
    if column.printed_sem is not None:
        text += f" ± {column.printed_sem:.1f}"
    if column.difference is not None:
        text += f" ({signed(column.difference)})"
    if column.verdict:
        text += f" {column.verdict}"
    return text


def delta(column: Column) -> str:
    """`+2.1 (+3.4 %) * printed +4.1`: ours minus the baseline row's, per cent of its errors, a star
    if Holm's p is below 0.05, and the same difference of the printed numbers.
    """
    if column.delta is None:
        return MISSING
    text = signed(column.delta, column.decimals)
    if column.delta_percent is not None:
        text += f" ({signed(column.delta_percent)} %)"
    if column.delta_p_holm is not None and column.delta_p_holm < 0.05:
        text += " *"
    if column.delta_printed is not None:
        text += f" printed {signed(column.delta_printed)}"
    return text


def learnt(column: Column) -> str:
    """`+3.2 (1.0 to 5.4)`: what a row has above the one that was not pre-trained; empty where that
    is unknown."""
    if column.learnt is None:
        return ""
    text = signed(column.learnt, column.decimals)
    if column.learnt_interval:
        low, high = column.learnt_interval
        text += f" ({number(low, column.decimals)} to {number(high, column.decimals)})"
    return text


def number(value: float | None, decimals: int = 1) -> str:
    """A number with its decimals, or the sign for a missing one; no sign before a zero.

    >>> number(31.25), number(-1e-8, 3), number(-3.2), number(None)
    ('31.2', '0.000', '−3.2', '—')
    """
    if value is None:
        return MISSING
    return f"{value:z.{decimals}f}".replace("-", MINUS)


def signed(value: float | None, decimals: int = 1) -> str:
    """A number with its decimals after + or −; no sign before a zero.

    >>> signed(1.04), signed(-0.26), signed(-0.04)
    ('+1.0', '−0.3', '0.0')
    """
    text = number(value, decimals)
    if value is not None and round(value, decimals) > 0:
        return f"+{text}"
    return text


def with_minus(text: str) -> str:
    """A line of figures, as of claims, with minus signs in front of its numbers.

    >>> with_minus("a − b -0.1 [-1.0, +0.8] over 2 pre-training seeds")
    'a − b −0.1 [−1.0, +0.8] over 2 pre-training seeds'
    """
    return re.sub(r"(?<=[ [])-(?=\d)", MINUS, text)


def title(column: str) -> str:
    """The head of a column of GLUE or of a measure; of any other column its name."""
    of_measures = measured_columns()
    if column in of_measures:
        return of_measures[column][1].title
    return NAMES.get(column, column)


@dataclass(frozen=True)
class SideTable:
    """A table of texts.

    Args:
        title: its subject, the head over the names of the rows.
        heads: the heads of the columns.
        lines: name of the row → its texts.
    """

    title: str
    heads: list[str]
    lines: list[tuple[str, list[str]]]

    @property
    def texts(self) -> list[list[str]]:
        """Line by line, the heads first, the names of the rows in front."""
        return [[self.title, *self.heads], *([name, *line] for name, line in self.lines)]


def by_columns(
    title: str,
    names: Iterable[str],
    columns: Mapping[str, Sequence[str]],
) -> SideTable | None:
    """A side table of columns, head → the texts of the lines of these names; None without
    columns."""
    if not columns:
        return None
    lines = zip(names, map(list, zip(*columns.values(), strict=True)), strict=True)
    return SideTable(title, list(columns), list(lines))


def of_scores(
    head: str,
    columns: Sequence[TableColumn],
    rows: Sequence[Row],
    text: Callable[[Column], str],
) -> SideTable | None:
    """A side table of texts about the scores of each row; None if all texts are empty."""
    texts = {}
    for column in columns:
        of_column = [text(score) or MISSING for score in column.scores]
        if {*of_column} != {MISSING}:
            texts[column.title] = of_column
    return by_columns(head, names_of(rows), texts)


def names_of(rows: Iterable[Row]) -> list[str]:
    return [row.name for row in rows]


def order_and_rate(rows: Sequence[Row]) -> SideTable | None:
    """The order that each row knows, since when, and the rates of its position parameters; None if
    nothing is known of order and all rates are 1. A row on the plateau is shown as such, whatever
    its loss.

    >>> from relpos.results.plateau import Onset
    >>> none = Row("none", on_plateau=True, order_known=0.0, order_found=Onset(None, 8e6, None))
    >>> rope = Row("rope", order_known=1.0, order_found=Onset(2.6e6, 2e6, 4e6), position_lr=(1.0, 30.0), conv_lr=3.0)
    >>> order_and_rate([none, rope]).heads
    ['order known', 'half known after', 'position_lr']
    >>> order_and_rate([none, rope]).lines
    [('none', ['plateau', 'later than 8', '1']), ('rope', ['100 %', '2.6 (2 to 4)', '1 + 30 (conv_lr 3)'])]
    """
    columns = {"order known": list(map(_order_known, rows))}
    # If no row has found order, the column would only repeat `order known`.
    if any(row.order_found and row.order_found.tokens for row in rows):
        columns["half known after"] = list(map(_order_found, rows))
    # A sweep shows every rate in a table of its own.
    if not sweeps(rows):
        columns["position_lr"] = list(map(_rates, rows))
    for head, nothing in (("order known", MISSING), ("position_lr", "1")):
        if {*columns.get(head, ())} <= {nothing}:
            columns.pop(head, None)
    title = "order and rates" if "order known" in columns else "rates"
    return by_columns(title, names_of(rows), columns)


def _order_known(row: Row) -> str:
    if row.on_plateau:
        return "plateau"
    if row.order_known is not None:
        return f"{100 * row.order_known:.0f} %".replace("-", MINUS)
    return "off the plateau" if row.on_plateau is False else MISSING


def _order_found(row: Row) -> str:
    if row.order_found is None:
        return MISSING
    tokens, low, high = row.order_found
    if tokens is None or high is None:
        return f"later than {_millions(low)}"
    return f"{_millions(tokens)} ({_millions(low)} to {_millions(high)})"


def _millions(tokens: float) -> str:
    return f"{tokens / 1e6:.3g}"


def _rates(row: Row) -> str:
    text = " + ".join(f"{rate:g}" for rate in np.atleast_1d(row.position_lr))
    if row.conv_lr is not None:
        text += f" (conv_lr {row.conv_lr:g})"
    return text


def server(rows: Sequence[Row]) -> SideTable | None:
    """The GLUE server's scores, for the rows that were submitted; None without such rows."""
    submitted = [row for row in rows if row.server]
    columns = {}
    for name in (*SERVER_COLUMNS, MEAN):
        scores = [row.server_score(name) for row in submitted]
        if {*scores} - {None}:
            columns[title(name)] = list(map(number, scores))
    return by_columns("GLUE server (test)", names_of(submitted), columns)


def losses_by_length(rows: Sequence[Row]) -> SideTable | None:
    """Nats per predicted token at each length; None if no lengths were measured."""
    columns = {
        length: [number(row.heldout_by_length.get(length), 3) for row in rows]
        for length in dict.fromkeys(chain(*(row.heldout_by_length for row in rows)))
    }
    return by_columns("held-out loss at length", names_of(rows), columns)


def losses_by_step(rows: Sequence[Row]) -> SideTable | None:
    """Nats per predicted token at steps that every row has, evenly in their logarithm; None without
    such steps."""
    curves = {row.name: dict(row.heldout_loss) for row in rows if row.heldout_loss}
    if not curves:
        return None
    steps = sorted(set.intersection(*map(set, curves.values())))
    if len(steps) > MOST_STEPS:
        even = np.geomspace(steps[0], steps[-1], MOST_STEPS)
        steps = sorted({min(steps, key=lambda step: abs(step - place)) for place in even})
    columns = {str(step): [number(curve[step], 3) for curve in curves.values()] for step in steps}
    return by_columns("held-out loss at step", curves, columns)


def by_snapshot(rows: Sequence[Row]) -> list[SideTable]:
    """A table over the pre-training for each column about order; empty if no snapshots were
    measured."""
    percents = sorted({percent for row in rows for percent in row.snapshots})
    named = chain(*(columns.items() for row in rows for columns in row.snapshots.values()))
    tables = []
    # A measure that failed everywhere would be a table of dashes, and has none.
    for name in dict.fromkeys(name for name, column in named if column.mean is not None):
        head = f"{title(name)} at per cent of the steps"
        texts = {
            f"{percent} %": [_point(row, percent, name) for row in rows] for percent in percents
        }
        tables.append(by_columns(head, names_of(rows), texts))
    return list(filter(None, tables))


def by_multiplier(rows: Sequence[Row]) -> SideTable | None:
    """The last held-out loss of rows that differ in `position_lr` or `conv_lr` alone; None without
    such rows."""
    kinds = sweeps(rows)
    columns = {}
    for multiplier in sorted({*chain(*kinds.values())}):
        losses = [of_kind.get(multiplier) for of_kind in kinds.values()]
        columns[f"{multiplier:g}"] = [number(loss, 3) for loss in losses]
    return by_columns("held-out loss at position_lr", kinds, columns)


def sweeps(rows: Sequence[Row]) -> dict[str, dict[float, float]]:
    """Overrides of the rows without the multiplier → multiplier → last held-out loss, for overrides
    with several multipliers.

    The multiplier is `conv_lr`, or `position_lr` if the convolution has no rate of its own; rows
    whose parts have different factors are left out.

    >>> loss = [(100, 4.5)]
    >>> sweeps([Row("a", ["position=t5"], heldout_loss=loss), Row("b", ["position=t5", "recipe.position_lr=3"], position_lr=3.0)])
    {}
    """
    kinds: dict[tuple[str, str], dict[float, float]] = {}
    for key, row in product(("position_lr", "conv_lr"), rows):
        # Without a rate of its own a convolution has that of the positions.
        multiplier = row.position_lr
        if key == "conv_lr" and row.conv_lr is not None:
            multiplier = row.conv_lr
        if row.heldout_loss and not isinstance(multiplier, tuple):
            kind = " ".join(
                override for override in row.overrides if f"recipe.{key}=" not in override
            )
            kinds.setdefault((kind, key), {})[multiplier] = row.heldout_loss[-1][1]
    swept = {at: losses for at, losses in kinds.items() if len(losses) > 1}
    names = [kind for kind, _ in swept]
    result = {}
    for (kind, key), losses in swept.items():
        result[f"{kind} {key}" if names.count(kind) > 1 else kind] = losses
    return result


def _point(row: Row, percent: int, name: str) -> str:
    """`0.512 ± 0.012`"""
    column = row.snapshots.get(percent, {}).get(name, Column())
    # Without the counts of failed and missing pre-trainings, which the table itself has.
    return text_of(replace(column, best=None, n_failed=0, n_missing=0))
