"""A table as LaTeX, for booktabs: what Markdown shows, with what stands behind a number in small letters."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from relpos.tables.render.cells import MINUS, MISSING
from relpos.tables.render.view import View

SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
SPECIAL |= {MISSING: "---", MINUS: "$-$", "±": r"$\pm$", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "Δ": r"$\Delta$"}
GREEK = {letter: unicodedata.name(letter).removeprefix("GREEK SMALL LETTER ").lower() for letter in "αβγδεζηθικλμνξπρστυφχψω"}
SPECIAL |= {letter: f"$\\{name.replace('lamda', 'lambda')}$" for letter, name in GREEK.items()}  # Unicode spells it lamda
SPECIAL |= {"–": "--", "…": r"\ldots{}", "→": r"$\to$", "<": "$<$", ">": "$>$"}


def latex(view: View) -> str:
    """The text of a `table` environment, to be read in with `\\input`."""
    name, rows = view.table.name, [list(map(escape, view.all_heads))]
    for line in view.lines:
        texts = [escape(line.row.name), *map(_figure, line.texts[1:])]
        rows.append([rf"\textbf{{{text}}}" if is_best else text for text, is_best in zip(texts, line.is_best, strict=True)])
    side_tables = [[list(map(escape, texts)) for texts in table.texts] for table in view.in_cells + view.side_tables]
    parts = [
        rf"% relpos reproduce table={name}      \usepackage{{booktabs}}; wide tables: \usepackage{{graphicx}} and \resizebox",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape(f'{view.table.question} {view.caption}'.rstrip())}}}",
        rf"  \label{{tab:{name}}}",
        *_tabular(rows),
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


def _figure(text: str) -> str:
    r"""A number, and in small letters what stands behind it: `31.2{\scriptsize{} $\pm$ 0.4 (32.0)}`."""
    number, space, rest = text.partition(" ")
    return escape(number) + (rf"{{\scriptsize{{}}{space}{escape(rest)}}}" if rest else "")
