"""A table as LaTeX, for booktabs: a line a row, and below it the paper's numbers where there are any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relpos.files import write_text
from relpos.tables.render.side_tables import further
from relpos.tables.render.view import MINUS, MISSING, Cell, cells_of, columns_of, heads_of, leaders, number, signed

SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
SPECIAL |= {MISSING: "---", MINUS: "$-$", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "Δ": r"$\Delta$"}
SPECIAL |= {"–": "--", "…": r"\ldots{}", "<": "$<$", ">": "$>$"}


def write_latex(path: Path, content: dict[str, Any]) -> None:
    """Writes a `table` environment, to be read in with `\\input`."""
    write_text(path, latex(content))


def latex(content: dict[str, Any]) -> str:
    """The text of the `table` environment."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("relpos.tables.render"),
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        autoescape=False,  # LaTeX has its own escapes, see `escape`
    )
    environment.filters["tex"] = escape
    rows = content["rows"]
    names = columns_of(rows)
    best = leaders(rows)
    lines = [_line(row, names, {column for place, column in best if place == number}) for number, row in enumerate(rows)]
    words = {"name": content["name"], "question": content["question"], "heads": heads_of(names), "lines": lines}
    words |= {"further": further(rows)}
    return environment.get_template("table.tex.j2").render(words) + "\n"


def escape(text: str) -> str:
    """Text whose letters mean themselves."""
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def _line(row: dict[str, Any], names: list[str], best: set[int]) -> dict[str, Any]:
    cells = cells_of(row, names)
    parameters, perplexity = row.get("parameters"), row.get("perplexity")
    shown = [
        escape(row["name"]),
        MISSING if parameters is None else f"{parameters / 1e6:.2f}M" if parameters >= 1e6 else f"{parameters:,}",
        MISSING if perplexity is None else f"{perplexity:.2f}",
    ]
    texts = [*(escape(text) for text in shown[1:]), *(_cell(cell) for cell in cells)]
    bold = [f"\\textbf{{{text}}}" if place in best else text for place, text in enumerate(texts, start=1)]
    printed = [_printed(cell) for cell in cells]
    return {"cells": [shown[0], *bold], "printed": printed if any(printed) else None}


def _cell(cell: Cell) -> str:
    text = _value(cell.mean, cell.sem)
    marks = ",".join(f"{count}{letter}" for count, letter in ((cell.n_failed, "f"), (cell.n_collapsed, "c")) if count)
    return f"{text}\\rlap{{$^{{{marks}}}$}}" if marks else text


def _printed(cell: Cell) -> str:
    """The paper's number, and in brackets ours minus it."""
    if cell.printed is None:
        return ""
    difference = "" if cell.difference is None else f" {{\\scriptsize({escape(signed(cell.difference))})}}"
    return f"{_value(cell.printed, cell.printed_sem)}{difference}"


def _value(value: float | None, sem: float | None) -> str:
    text = escape(number(value)).replace("-", "$-$") if value is not None and value < 0 else escape(number(value))
    return text if sem is None else f"{text}{{\\scriptsize\\,$\\pm$\\,{sem:.1f}}}"
