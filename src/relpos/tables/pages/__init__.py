"""A table as LaTeX and as one HTML page that carries all it needs: style, script and figures; it asks no server for anything."""

from relpos.tables.pages.html import write_html
from relpos.tables.pages.latex import write_latex

__all__ = ["write_html", "write_latex"]
