"""A table for the terminal, as Markdown, JSON and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from relpos.files import write_json, write_text
from relpos.tables.table import GLUE, mean_of

NAMES = {"cola": "CoLA", "mnli_m": "MNLI-m", "mnli_mm": "MNLI-mm", "mrpc": "MRPC", "qnli": "QNLI", "qqp": "QQP"}
NAMES |= {"rte": "RTE", "sst2": "SST-2", "stsb": "STS-B", "wnli": "WNLI"}
MISSING = "—"
NOTE = (
    "Columns × 100 on the dev sets. Mean ± standard error over seeds where there are several, the best in brackets; "
    f"{MISSING} = not run."
)


def write(folder: Path, content: dict[str, Any]) -> None:
    """Writes `table.json`, `table.md` and `table.csv`.

    Args:
        folder: of the table.
        content: `name`, `question`, `rows` and `checks`.
    """
    write_json(folder / "table.json", content)
    write_text(folder / "table.md", markdown(content))
    write_text(folder / "table.csv", comma_separated(content["rows"]))


def columns_of(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The columns of a table: GLUE's in their order, then others."""
    found = list(dict.fromkeys(column for row in rows for column in row["columns"]))
    return sorted(found, key=lambda column: GLUE.index(column) if column in GLUE else len(GLUE))


def header(rows: list[dict[str, Any]]) -> list[str]:
    """The heads of the columns, row names and mean included."""
    names = columns_of(rows)
    return ["row", "parameters", "perplexity", *(NAMES.get(name, name) for name in names), mean_name(mean_of(names))]


def mean_name(columns: list[str]) -> str:
    """`GLUE` for all nine columns; else what it is."""
    return "GLUE" if len(columns) == len(GLUE) else f"mean of {len(columns)}"


def body(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The cells, as text."""
    names = columns_of(rows)
    return [
        [
            row["name"],
            f"{row['parameters']:,}" if row["parameters"] is not None else MISSING,
            f"{row['perplexity']:.2f}" if row["perplexity"] is not None else MISSING,
            *(cell(row["columns"][name]) for name in names),
            cell(row["mean"]),
        ]
        for row in rows
    ]


def cell(column: dict[str, Any]) -> str:
    """`31.2 ± 0.4 (32.0)`: mean, standard error, best."""
    failed = f"{column['n_failed']} failed" if column.get("n_failed") else ""
    if column["mean"] is None:
        return failed or MISSING
    spread = f" ± {column['sem']:.1f} ({column['best']:.1f})" if column["sem"] is not None else ""
    few = f", n={len(column['values'])}" if failed or column.get("n_missing") else ""
    return f"{column['mean']:.1f}{spread}{few}{', ' + failed if failed else ''}"


def leaders(rows: list[dict[str, Any]]) -> set[tuple[int, int]]:
    """(row, cell) of the best numbers: highest means, lowest perplexity; none where a column has one number only."""
    columns = [[None if row["perplexity"] is None else -row["perplexity"] for row in rows]]
    columns += [[row["columns"][name]["mean"] for row in rows] for name in columns_of(rows)]
    columns += [[row["mean"]["mean"] for row in rows]]
    found = set()
    for place, values in enumerate(columns, start=2):
        known = [value for value in values if value is not None]
        found |= {(row, place) for row, value in enumerate(values) if len(known) > 1 and value == max(known)}
    return found


def terminal(content: dict[str, Any], console: Console | None = None) -> None:
    """Prints the table, the best in colour, and the checks. Where it is too wide, rows become columns."""
    console = console or Console()
    rows = content["rows"]
    best = leaders(rows)
    texts = [[Text(head, style="bold") for head in header(rows)]]
    for number, cells in enumerate(body(rows)):
        styles = ["bold green" if (number, place) in best else "" for place in range(len(cells))]
        texts.append([Text(text, style=style) for text, style in zip(cells, styles, strict=True)])
    table = _grid(texts)
    if _width(table, console) > console.width and len(rows) < len(texts[0]):
        table = _grid([list(line) for line in zip(*texts, strict=True)])
    console.width = max(console.width, _width(table, console))  # long lines rather than numbers cut short
    console.print(Text(content["question"], style="italic"), soft_wrap=True)
    console.print(table)
    console.print(NOTE, style="dim", soft_wrap=True)
    for check in content["checks"]:
        colour = {"holds": "green", "fails": "red"}.get(check["verdict"], "yellow")
        words = (f"{check['verdict']:>9}", f"bold {colour}"), f"  {check['says']}: {check['figures']}"
        console.print(Text.assemble(*words), soft_wrap=True)


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
    """The table, the best in bold, and the checks."""
    rows = content["rows"]
    best = leaders(rows)
    lines = [f"# {content['name']}", "", content["question"], "", _line(header(rows))]
    lines.append("|---|" + "---:|" * (len(header(rows)) - 1))
    for number, cells in enumerate(body(rows)):
        lines.append(_line([f"**{text}**" if (number, place) in best else text for place, text in enumerate(cells)]))
    lines += ["", NOTE, "", *_curves(rows)]
    lines += [f"- **{check['verdict']}** — {check['says']}: {check['figures']}" for check in content["checks"]]
    return "\n".join(lines).rstrip() + "\n"


def _curves(rows: list[dict[str, Any]]) -> list[str]:
    """Held-out loss along the way, for the steps that every row has."""
    curves = [dict(map(tuple, row["heldout_loss"])) for row in rows]
    steps = [step for step in curves[0] if all(step in curve for curve in curves)] if curves else []
    if not steps:
        return []
    head = [_line(["held-out loss at step", *map(str, steps)]), "|---|" + "---:|" * len(steps)]
    lines = [[row["name"], *(f"{curve[step]:.3f}" for step in steps)] for row, curve in zip(rows, curves, strict=True)]
    return [*head, *map(_line, lines), ""]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def comma_separated(rows: list[dict[str, Any]]) -> str:
    """One line a row; each column with its standard error, best and number of runs; empty where it is missing."""
    names = columns_of(rows)
    parts = ("mean", "sem", "best", "n")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = [f"{name}_{part}" if part != "mean" else name for name in (*names, "glue") for part in parts]
    writer.writerow(["row", "parameters", "perplexity", *(head.replace("glue", _slug(names)) for head in heads)])
    for row in rows:
        columns = [*(row["columns"][name] for name in names), row["mean"]]
        numbers = [len(column["values"]) if part == "n" else column[part] for column in columns for part in parts]
        writer.writerow([row["name"], row["parameters"], row["perplexity"], *numbers])
    return text.getvalue()


def _slug(names: list[str]) -> str:
    return mean_name(mean_of(names)).lower().replace(" ", "_")
