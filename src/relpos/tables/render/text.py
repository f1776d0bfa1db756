"""A table as text: for the terminal, as Markdown, CSV and LaTeX; and its files in all five
forms."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from relpos.files import write_text
from relpos.progress import plain_console
from relpos.tables.render.cells import MINUS, MISSING, Cell
from relpos.tables.render.html import write_html
from relpos.tables.render.view import View
from relpos.tables.table import Column

VERDICTS = {"inside": "green", "outside": "red"}
"""Verdict on a printed number → its colour."""
BEST = {True: "bold green", False: ""}
"""Whether a cell is the best of its column → its style."""
LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
LATEX |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
LATEX |= {
    MISSING: "---",
    MINUS: "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "Δ": r"$\Delta$",
}
for letter in "αβγδεζηθικλμνξπρστυφχψω":
    name = unicodedata.name(letter).removeprefix("GREEK SMALL LETTER ").lower()
    LATEX[letter] = f"$\\{name.replace('lamda', 'lambda')}$"  # Unicode spells it lamda
LATEX |= {"–": "--", "…": r"\ldots{}", "→": r"$\to$", "<": "$<$", ">": "$>$"}
"""Letters that LaTeX takes for markup or writes in another way."""


def write(folder: Path, view: View) -> None:
    """Writes `table.json`, `.md`, `.csv`, `.tex` and `.html` into the folder of the table."""
    # First, because commands read this file, and the others only show its content.
    view.table.write(folder)
    write_text(folder / "table.md", markdown(view))
    write_text(folder / "table.csv", comma_separated(view))
    write_text(folder / "table.tex", latex(view))
    write_html(folder / "table.html", view)


def terminal(view: View, console: Console | None = None) -> None:
    """Prints the table, the best in colour. If it is too wide, rows become columns."""
    console = console or plain_console()
    lines = [
        [Text(row.name), *(Text(cell.text, BEST[cell.is_best]) for cell in cells)]
        for row, cells in view.lines
    ]
    console.print(Text(view.table.question, style="italic"), soft_wrap=True)
    if view.made_with:
        console.print(Text(view.made_with, style="bold"), soft_wrap=True)
    _print(view.heads, lines, console)
    for note in view.notes:
        console.print(Text(note, style="dim"), soft_wrap=True)
    for side_table in view.below:
        heads, *texts = side_table.texts
        lines = [
            [Text(text, VERDICTS.get(text.rpartition(" ")[2], "")) for text in line]
            for line in texts
        ]
        _print(heads, lines, console)


def _print(heads: Iterable[str], lines: list[list[Text]], console: Console) -> None:
    texts = [[Text(head, style="bold") for head in heads], *lines]
    # Measured before it is printed, because rich would cut numbers short to make a table fit.
    grid = _grid(texts)
    # Rows become columns if that is narrower.
    if _width(grid, console) > console.width and len(texts) <= len(texts[0]):
        grid = _grid([list(line) for line in zip(*texts, strict=True)])
    # long lines rather than numbers cut short
    console.width = max(console.width, _width(grid, console))
    console.print(grid)


def _grid(texts: list[list[Text]]) -> Grid:
    grid = Grid(box=SIMPLE_HEAD)
    for place, head in enumerate(texts[0]):
        grid.add_column(head, justify="right" if place else "left", no_wrap=True)
    for cells in texts[1:]:
        grid.add_row(*cells)
    return grid


def _width(grid: Grid, console: Console) -> int:
    return console.measure(grid, options=console.options.update(max_width=10_000)).maximum


def markdown(view: View) -> str:
    """The table, the best in bold, the side tables, and the held-out loss."""
    lines = [f"# {escape(view.table.name)}", "", escape(view.table.question), ""]
    if view.made_with:
        lines += [escape(view.made_with), ""]
    lines += _head(view.heads)
    for row, cells in view.lines:
        marked = (_marked(escape(cell.text), cell, "**{}**") for cell in cells)
        lines.append(_line([escape(row.name), *marked]))
    lines += ["", *(f"- {escape(note)}" for note in view.notes), ""]
    for side_table in filter(None, (*view.below, view.by_step)):
        heads, *rows = side_table.texts
        lines += [*_head(heads), *(_line(map(escape, row)) for row in rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def _marked(text: str, cell: Cell, form: str) -> str:
    """The text of a cell; in this form if it is the best of its column."""
    return form.format(text) if cell.is_best else text


SPECIAL = re.compile(
    r"[\\`\[\]<|]|(?<!\s)\*|\*(?!\s|$)|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|~(?=~)|(?<=~)~"
)
"""Letters that Markdown takes for markup, unlike a star between spaces or an underscore inside a
word."""


def escape(text: str) -> str:
    r"""One line of Markdown that shows a text as it is, also inside a table.

    >>> print(escape("a|b <c> base_fixed, p < 0.05 *"))
    a\|b \<c> base_fixed, p \< 0.05 *
    """
    return SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))


def _head(heads: list[str]) -> list[str]:
    return [_line(map(escape, heads)), "|---|" + "---:|" * (len(heads) - 1)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _parts(column: Column) -> dict[str, float | str | None]:
    """Suffix of a further CSV column → its value; `low` and `high` are the ends of the 95 %
    interval."""
    low, high = column.interval or (None, None)
    return {
        "sem": column.sem,
        "best": column.best,
        "n": len(column.values),
        "median": column.median,
        "low": low,
        "high": high,
        "printed": column.printed,
        "difference": column.difference,
        "verdict": column.verdict,
        # None and not 0: without a failed run in the table there is no such CSV column.
        "failed": column.n_failed or None,
        "collapsed": column.n_collapsed or None,
    }


def no_formula(text: str) -> str:
    """Text that no spreadsheet takes for a formula, if need be with an apostrophe before it.

    >>> no_formula("=1+1"), no_formula("rope")
    ("'=1+1", 'rope')
    """
    if text[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{text}"
    return text


def comma_separated(view: View) -> str:
    """One line per row. Each column has standard error, best, number of runs, and the further
    figures that any row has."""
    used = {"sem", "best", "n"}
    for column in view.scores:
        for score in column.scores:
            used |= {part for part, value in _parts(score).items() if value is not None}
    parts = [part for part in _parts(Column()) if part in used]
    heads = ["row"]
    lines: list[list[float | str | None]] = [[no_formula(row.name)] for row in view.table.rows]
    for column in view.columns:
        heads.append(column.name)
        if column.scores:
            heads += [f"{column.name}_{part}" for part in parts]
        for line, cell in zip(lines, column.cells, strict=True):
            line.append(cell.value)
            if cell.column is not None:
                of_cell = _parts(cell.column)
                line += [of_cell[part] for part in parts]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(no_formula, heads))
    writer.writerows(lines)
    return text.getvalue()


def latex(view: View) -> str:
    """The content of the Markdown form as a `table` environment for booktabs, for `\\input`; text
    after a number is small."""
    name = view.table.name
    rows = [list(map(in_latex, view.heads))]
    for row, cells in view.lines:
        marked = (_marked(_figure(cell.text), cell, r"\textbf{{{}}}") for cell in cells)
        rows.append([in_latex(row.name), *marked])
    below = []
    for table in view.below:
        texts = [list(map(in_latex, line)) for line in table.texts]
        below += ["", r"  \medskip", *_tabular(texts)]
    parts = [
        rf"% relpos reproduce table={name}      \usepackage{{booktabs}}; wide tables: \usepackage{{graphicx}} and \resizebox",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{in_latex(' '.join(filter(None, (view.table.question, view.made_with))))}}}",
        rf"  \label{{tab:{name}}}",
        *_tabular(rows),
        *below,
        *(rf"  \par{{\footnotesize {in_latex(note)}}}" for note in view.notes),
        r"\end{table}",
    ]
    return "\n".join(parts) + "\n"


def _tabular(texts: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a `tabular` environment; the first texts are its heads."""
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


def in_latex(text: str) -> str:
    r"""LaTeX that shows a text as it is.

    >>> print(in_latex("base_fixed: 50 % of β < 1"))
    base\_fixed: 50 \% of $\beta$ $<$ 1
    """
    return "".join(LATEX.get(letter, letter) for letter in text)


def _figure(text: str) -> str:
    r"""A number, and in small letters the text after it: `31.2{\scriptsize{} $\pm$ 0.4 (32.0)}`."""
    number, space, details = text.partition(" ")
    if not details:
        return in_latex(number)
    return rf"{in_latex(number)}{{\scriptsize{{}}{space}{in_latex(details)}}}"
