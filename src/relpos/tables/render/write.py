"""A table in all five forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relpos.files import write_json, write_text
from relpos.tables.render.html import write_html
from relpos.tables.render.latex import write_latex
from relpos.tables.render.text import comma_separated, markdown


def write(folder: Path, content: dict[str, Any]) -> None:
    """Writes `table.json`, `.md`, `.csv`, `.tex` and `.html`.

    Args:
        folder: of the table.
        content: `name`, `question`, `rows` and `checks`.
    """
    write_json(folder / "table.json", content)
    write_text(folder / "table.md", markdown(content))
    write_text(folder / "table.csv", comma_separated(content["rows"]))
    write_latex(folder / "table.tex", content)
    write_html(folder / "table.html", content)
