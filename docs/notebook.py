"""Writes a tutorial as a Jupyter notebook beside it: python docs/notebook.py
docs/tutorials/what_a_checkpoint_knows.md

Shell blocks become `!relpos …`, Python blocks cells, and what a command printed stays text. Without
outputs, which a reader makes.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
CAPTURED = re.compile(r"(\w+)=\$\((.*) \| tail -n 1\)")


def notebook(text: str) -> dict[str, Any]:
    """The page in Jupyter's format 4.5."""
    pieces = BLOCK.split(text)  # prose, then (language, code, prose) as often as there are blocks
    cells = [_cell("markdown", pieces[0], 0)]
    for number, at in enumerate(range(1, len(pieces), 3), start=1):
        language, code, prose = pieces[at : at + 3]
        cells += [
            _cell("code", _as_python(code) if language == "sh" else code, 2 * number - 1),
            _cell("markdown", prose, 2 * number),
        ]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {
        "cells": [cell for cell in cells if cell["source"]],
        "metadata": kernel,
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(kind: str, text: str, number: int) -> dict[str, Any]:
    """A cell; links of a page in docs/tutorials also lead on from the notebook, which lies beside
    it."""
    cell = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": text.strip().splitlines(keepends=True),
    }
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _as_python(shell: str) -> str:
    """Commands as IPython runs them: `NAME=$(command | tail -n 1)` keeps the last line."""
    lines = []
    for line in shell.splitlines():
        captured = CAPTURED.fullmatch(line)
        lines += (
            [f"{captured[1]} = !{captured[2]}", f"{captured[1]} = {captured[1]}[-1]"]
            if captured
            else [f"!{line}"]
        )
    return "\n".join(lines)


def main() -> None:
    for page in map(Path, sys.argv[1:]):
        content = json.dumps(
            notebook(page.read_text(encoding="utf-8")), indent=1, ensure_ascii=False
        )
        page.with_suffix(".ipynb").write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
