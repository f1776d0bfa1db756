"""A table as LaTeX, for booktabs: one line per row, and below it the paper's numbers if there are any."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from relpos.tables.render.cell import MINUS, MISSING, Cell, number, signed
from relpos.tables.render.view import Line, View

SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
SPECIAL |= {MISSING: "---", MINUS: "$-$", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "Δ": r"$\Delta$"}
GREEK = {letter: unicodedata.name(letter).removeprefix("GREEK SMALL LETTER ").lower() for letter in "αβγδεζηθικλμνξπρστυφχψω"}
SPECIAL |= {letter: f"$\\{name.replace('lamda', 'lambda')}$" for letter, name in GREEK.items()}  # Unicode spells it lamda
SPECIAL |= {"–": "--", "…": r"\ldots{}", "→": r"$\to$", "<": "$<$", ">": "$>$"}


COLUMNS = r"Columns $\times$ 100 on the dev sets; mean $\pm$ standard error over seeds, the best in bold"
MISSES = "; --- = not run; $^{nf}$: $n$ runs failed; $^{nc}$: $n$ are no better than the constant answer."


def latex(view: View) -> str:
    """The text of a `table` environment, to be read in with `\\input`."""
    name, lines, printed = view.table.name, [_line(line) for line in view.lines], [_printed_line(line) for line in view.lines]
    of_printed = r"; \emph{printed}: the paper's number, in brackets ours minus it" if any(printed) else ""
    caption = f"{escape(view.table.question)} {COLUMNS}{of_printed}{MISSES} {escape(view.notes)}".rstrip()
    rows = [row for both in zip(lines, printed, strict=True) for row in both if row]
    side_tables = [[list(map(escape, texts)) for texts in side_table.texts] for side_table in view.side_tables]
    parts = [
        rf"% relpos reproduce table={name}      \usepackage{{booktabs}}; wide tables: \usepackage{{graphicx}} and \resizebox",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{caption}}}",
        rf"  \label{{tab:{name}}}",
        *_tabular([list(map(escape, view.all_heads)), *rows]),
        *(part for texts in side_tables for part in ("", r"  \medskip", *_tabular(texts))),
        r"\end{table}",
    ]
    return "\n".join(parts) + "\n"


def _tabular(texts: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a `tabular` environment; the first of the texts are its heads."""
    head, *rows = (rf"    {' & '.join(row)} \\" for row in texts)
    columns = "l" + "r" * (len(texts[0]) - 1)
    return [
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        head,
        r"    \midrule",
        *rows,
        r"    \bottomrule",
        r"  \end{tabular}",
    ]


def escape(text: str) -> str:
    r"""Text whose letters mean themselves in LaTeX.

    >>> print(escape("base_fixed: 50 % of β < 1"))
    base\_fixed: 50 \% of $\beta$ $<$ 1
    """
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def _line(line: Line) -> list[str]:
    row = line.row
    parameters = MISSING if row.parameters is None else f"{row.parameters:,}"
    if row.parameters is not None and row.parameters >= 1e6:
        parameters = f"{row.parameters / 1e6:.2f}M"
    texts = [escape(row.name), escape(parameters), escape(line.perplexity), *(_cell(cell) for cell in line.cells)]
    return [f"\\textbf{{{text}}}" if is_best else text for text, is_best in zip(texts, line.is_best, strict=True)]


def _printed_line(line: Line) -> list[str]:
    """The paper's numbers, which stand below ours; empty where there are none."""
    printed = [_printed(cell) for cell in line.cells]
    return ["\\quad\\emph{printed}", "", "", *printed] if any(printed) else []


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
