"""A table as text, CSV, LaTeX and one page that carries all it needs."""
