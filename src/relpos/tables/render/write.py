"""A table in all five forms."""

from __future__ import annotations

from pathlib import Path

from relpos.files import write_text
from relpos.tables.render.html import write_html
from relpos.tables.render.latex import latex
from relpos.tables.render.text import comma_separated, markdown
from relpos.tables.render.view import View


def write(folder: Path, view: View) -> None:
    """Writes `table.json`, `.md`, `.csv`, `.tex` and `.html` into the folder of the table."""
    # First: commands read this one, and the others only show what it holds.
    view.table.write(folder)
    write_text(folder / "table.md", markdown(view))
    write_text(folder / "table.csv", comma_separated(view))
    write_text(folder / "table.tex", latex(view))
    write_html(folder / "table.html", view)
