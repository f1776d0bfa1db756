"""A table for the terminal, as Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from relpos.tables.columns import GLUE, mean_of
from relpos.tables.render.side_tables import further
from relpos.tables.render.view import MISSING, NAMES, Cell, cells_of, columns_of, heads_of, leaders, mean_name, number

NOTE = (
    "Columns × 100 on the dev sets. Mean ± standard error over seeds where there are several, the best in brackets (of the mean "
    f"over columns, the mean of their bests); {MISSING} = not run."
)
BESIDE = "printed (ours − printed) verdict"
SERVER = "GLUE server (test)"
VERDICTS = {"reproduced": "green", "holds": "green", "above": "blue", "below": "red", "fails": "red"}
"""Colours of verdicts; yellow for the others."""


def header(rows: list[dict[str, Any]]) -> list[str]:
    """The heads of the columns, row names and mean included."""
    return ["row", "parameters", "perplexity", *heads_of(columns_of(rows))]


def body(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The cells, as text."""
    names = columns_of(rows)
    return [[row["name"], *_sizes(row), *(cell.text for cell in cells_of(row, names))] for row in rows]


def _sizes(row: dict[str, Any]) -> list[str]:
    parameters, perplexity = row.get("parameters"), row.get("perplexity")
    return [
        f"{parameters:,}" if parameters is not None else MISSING,
        f"{perplexity:.2f}" if perplexity is not None else MISSING,
    ]


def cell(column: dict[str, Any]) -> str:
    """`31.2 ± 0.4 (32.0)`: mean, standard error, best."""
    return Cell.of(column).text


def _more(rows: list[dict[str, Any]]) -> list[list[list[str]]]:
    """Further tables of the same rows, each with its header, where there is anything to show: the paper, the server, `further`."""
    names = columns_of(rows)
    beside = [
        [BESIDE, *heads_of(names)],
        *([row["name"], *(cell.beside or MISSING for cell in cells_of(row, names))] for row in rows),
    ]
    scored = [name for name in (*GLUE, "wnli", "ax", "glue") if any(row.get("test", {}).get(name) is not None for row in rows)]
    test = [[SERVER, *(NAMES.get(name, name.upper()) for name in scored)]]
    test += [[row["name"], *(number(row["test"].get(name)) for name in scored)] for row in rows if row.get("test")]
    paper = any(cell.printed is not None for row in rows for cell in cells_of(row, names))
    return [table for table, wanted in ((beside, paper), (test, scored)) if wanted] + further(rows)


def terminal(content: dict[str, Any], console: Console | None = None) -> None:
    """Prints the table, the best in colour, and the checks. Where it is too wide, rows become columns."""
    console = console or Console()
    rows = content["rows"]
    best = leaders(rows)
    texts = [[Text(head, style="bold") for head in header(rows)]]
    for place, cells in enumerate(body(rows)):
        styles = ["bold green" if (place, column) in best else "" for column in range(len(cells))]
        texts.append([Text(text, style=style) for text, style in zip(cells, styles, strict=True)])
    console.print(Text(content["question"], style="italic"), soft_wrap=True)
    _print(texts, console)
    if columns_of(rows):
        console.print(NOTE, style="dim", soft_wrap=True)
    for table in _more(rows):
        head = [Text(text, style="bold") for text in table[0]]
        _print([head, *([Text(text, style=_colour(text)) for text in line] for line in table[1:])], console)
    for check in content.get("checks", ()):
        words = (
            (f"{check['verdict']:>9}", f"bold {_colour(check['verdict']) or 'yellow'}"),
            f"  {check['says']}: {check['figures']}",
        )
        console.print(Text.assemble(*words), soft_wrap=True)


def _colour(text: str) -> str:
    return VERDICTS.get(text.rpartition(" ")[2], "")


def _print(texts: list[list[Text]], console: Console) -> None:
    table = _grid(texts)
    if _width(table, console) > console.width and len(texts) <= len(texts[0]):
        table = _grid([list(line) for line in zip(*texts, strict=True)])
    console.width = max(console.width, _width(table, console))  # long lines rather than numbers cut short
    console.print(table)


def _grid(texts: list[list[Text]]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for place, head in enumerate(texts[0]):
        table.add_column(head, justify="right" if place else "left", no_wrap=True)
    for cells in texts[1:]:
        table.add_row(*cells)
    return table


def _width(table: Table, console: Console) -> int:
    return console.measure(table, options=console.options.update(max_width=10_000)).maximum


def markdown(content: dict[str, Any]) -> str:
    """The table, the best in bold, the paper's numbers and the server's, the held-out loss and the checks."""
    rows = content["rows"]
    best = leaders(rows)
    lines = [f"# {content['name']}", "", content["question"], "", *_head(header(rows))]
    for place, cells in enumerate(body(rows)):
        lines.append(_line([f"**{text}**" if (place, column) in best else text for column, text in enumerate(cells)]))
    lines += ["", NOTE, ""] if columns_of(rows) else [""]
    for table in _more(rows):
        lines += [*_head(table[0]), *map(_line, table[1:]), ""]
    lines += _curves(rows)
    lines += [f"- **{check['verdict']}** — {check['says']}: {check['figures']}" for check in content.get("checks", ())]
    return "\n".join(lines).rstrip() + "\n"


def _curves(rows: list[dict[str, Any]]) -> list[str]:
    """Held-out loss along the way, for the steps that every row has."""
    curves = [dict(map(tuple, row.get("heldout_loss", ()))) for row in rows]
    steps = [step for step in curves[0] if all(step in curve for curve in curves)] if curves else []
    if not steps:
        return []
    head = _head(["held-out loss at step", *map(str, steps)])
    lines = [[row["name"], *(f"{curve[step]:.3f}" for step in steps)] for row, curve in zip(rows, curves, strict=True)]
    return [*head, *map(_line, lines), ""]


def _head(heads: list[str]) -> list[str]:
    return [_line(heads), "|---|" + "---:|" * (len(heads) - 1)]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


PARTS: dict[str, Callable[[Cell], Any]] = {
    "sem": lambda cell: cell.sem,
    "best": lambda cell: cell.best,
    "n": lambda cell: len(cell.values),
    "median": lambda cell: cell.median,
    "low": lambda cell: cell.low,
    "high": lambda cell: cell.high,
    "printed": lambda cell: cell.printed,
    "difference": lambda cell: cell.difference,
    "verdict": lambda cell: cell.verdict,
    "failed": lambda cell: cell.n_failed or None,
    "collapsed": lambda cell: cell.n_collapsed or None,
    "test": lambda cell: cell.test,
}
"""What may stand behind each column of the CSV; `low` and `high` are the 95 % interval."""
ALWAYS = ("sem", "best", "n")


def comma_separated(rows: list[dict[str, Any]]) -> str:
    """One line a row; each column with standard error, best, number of runs and whatever else there is; empty = missing."""
    names = columns_of(rows)
    cells = [cells_of(row, names) for row in rows]
    parts = [part for part, of in PARTS.items() if part in ALWAYS or any(of(cell) is not None for line in cells for cell in line)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    named = [*names, _slug(names)] if names else []
    heads = [head for name in named for head in (name, *(f"{name}_{part}" for part in parts))]
    writer.writerow(["row", "parameters", "perplexity", *heads])
    for row, line in zip(rows, cells, strict=True):
        numbers = [value for cell in line for value in (cell.mean, *(PARTS[part](cell) for part in parts))]
        writer.writerow([row["name"], row.get("parameters"), row.get("perplexity"), *numbers])
    return text.getvalue()


def _slug(names: list[str]) -> str:
    return mean_name(mean_of(names)).lower().replace(" ", "_")
