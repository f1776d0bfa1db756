"""A table as LaTeX, for booktabs: one line per row, and below it the paper's numbers if there are any."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from relpos.tables.render.cell import MINUS, MISSING, Cell, number, signed
from relpos.tables.render.view import Line, View

SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
SPECIAL |= {MISSING: "---", MINUS: "$-$", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "Δ": r"$\Delta$"}
GREEK = {letter: unicodedata.name(letter).removeprefix("GREEK SMALL LETTER ").lower() for letter in "αβγδεζηθικλμνξπρστυφχψω"}
SPECIAL |= {letter: f"$\\{name.replace('lamda', 'lambda')}$" for letter, name in GREEK.items()}  # Unicode spells it lamda
SPECIAL |= {"–": "--", "…": r"\ldots{}", "→": r"$\to$", "<": "$<$", ">": "$>$"}


def latex(view: View) -> str:
    """The text of a `table` environment, to be read in with `\\input`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("relpos.tables.render"),
        # Jinja's own braces are LaTeX's, and per cent signs begin comments there.
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
    head = [escape(text) for text in view.all_heads]
    lines = [_latex_line(line) for line in view.lines]
    return environment.get_template("table.tex.j2").render(view=view, head=head, lines=lines) + "\n"


@dataclass(frozen=True)
class LatexLine:
    """The cells of a row, and of the line of printed numbers below it, if there are any."""

    cells: list[str]
    printed: list[str] | None


def escape(text: str) -> str:
    r"""Text whose letters mean themselves in LaTeX.

    >>> print(escape("base_fixed: 50 % of β < 1"))
    base\_fixed: 50 \% of $\beta$ $<$ 1
    """
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def _latex_line(line: Line) -> LatexLine:
    row = line.row
    parameters = MISSING if row.parameters is None else f"{row.parameters:,}"
    if row.parameters is not None and row.parameters >= 1e6:
        parameters = f"{row.parameters / 1e6:.2f}M"
    texts = [escape(row.name), escape(parameters), escape(line.perplexity), *(_cell(cell) for cell in line.cells)]
    printed = [_printed(cell) for cell in line.cells]
    return LatexLine(
        cells=[f"\\textbf{{{text}}}" if is_best else text for text, is_best in zip(texts, line.is_best, strict=True)],
        printed=["\\quad\\emph{printed}", "", "", *printed] if any(printed) else None,
    )


def _cell(cell: Cell) -> str:
    column = cell.column
    text = _value(column.mean, column.sem, column.decimals)
    marks = ",".join(f"{count}{letter}" for count, letter in ((column.n_failed, "f"), (column.n_collapsed, "c")) if count)
    return f"{text}\\rlap{{$^{{{marks}}}$}}" if marks else text


def _printed(cell: Cell) -> str:
    """The paper's number, and in brackets ours minus it."""
    column = cell.column
    if column.printed is None:
        return ""
    difference = "" if column.difference is None else f" {{\\scriptsize({escape(signed(column.difference))})}}"
    return f"{_value(column.printed, column.printed_sem)}{difference}"


def _value(value: float | None, sem: float | None, decimals: int = 1) -> str:
    text = escape(number(value, decimals))
    # A hyphen is shorter than a minus sign.
    text = text.replace("-", "$-$") if value is not None and value < 0 else text
    return text if sem is None else f"{text}{{\\scriptsize\\,$\\pm$\\,{number(sem, decimals)}}}"
