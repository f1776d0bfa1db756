"""Tables as text: whatever stands in `table.json` is shown, and what does not is missing, never zero."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from relpos.tables.render import text, write
from relpos.tables.render.latex import escape, latex
from relpos.tables.render.view import Cell, signed
from tables.written_table import table


def test_a_cell_reads_whatever_is_there() -> None:
    assert Cell.of({}) == Cell(values=[])
    assert Cell.of({"mean": 40.0, "printed": {"mean": 41.0, "sem": 0.5}}).difference == -1.0
    assert Cell.of({"mean": 40.0, "best": 44.0, "statistic": "best", "printed": 41.0}).difference == 3.0
    assert Cell.of({"mean": None, "printed": 41.0}).difference is None


def test_signs() -> None:
    assert [signed(value) for value in (1.04, -0.26, 0.04, -0.04, None)] == ["+1.0", "−0.3", "0.0", "0.0", "—"]


def test_the_papers_numbers_stand_beside_ours() -> None:
    lines = text.markdown(table()).splitlines()
    assert "| printed (ours − printed) verdict | CoLA | RTE | mean of 2 |" in lines
    assert "| composite | 40.0 (+1.5) reproduced | 66.0 (+1.0) reproduced | — |" in lines
    assert "| dynamic | 40.0 not run | 66.0 not run | — |" in lines


def test_failed_and_collapsed_runs_are_counted() -> None:
    lines = text.markdown(table()).splitlines()
    assert "| none | 1,000,000 | 20.00 | 3.0 ± 3.0 (6.0), 1 collapsed | 54.0 ± 1.0 (55.0) | 28.5 ± 2.0 (30.5) |" in lines
    assert any("67.0, n=1, 1 failed" in line for line in lines if line.startswith("| composite |"))


def test_a_row_that_was_not_run_is_missing_everywhere() -> None:
    content = table()
    assert "| dynamic | — | — | — | — | — |" in text.markdown(content)
    line = next(line for line in csv.DictReader(io.StringIO(text.comma_separated(content["rows"]))) if line["row"] == "dynamic")
    assert {key: text for key, text in line.items() if text} == {
        "row": "dynamic",
        **{f"{name}_{part}": text for name, text in (("cola", "40.0"), ("rte", "66.0")) for part in ("printed",)},
        **{f"{name}_verdict": "not run" for name in ("cola", "rte")},
        **{f"{name}_n": "0" for name in ("cola", "rte", "mean_of_2")},
    }
    assert "dynamic & --- & --- & --- & --- & --- \\\\" in latex(content)


def test_a_table_without_tasks_has_no_columns_and_no_mean() -> None:
    rows = [{"name": "one", "parameters": 5, "perplexity": 3.0, "columns": {}, "mean": {}}]
    assert text.header(rows) == ["row", "parameters", "perplexity"]
    assert text.body(rows) == [["one", "5", "3.00"]]


def test_csv_has_what_the_table_has() -> None:
    line = next(csv.DictReader(io.StringIO(text.comma_separated(table()["rows"]))))
    assert (line["cola"], line["cola_low"], line["cola_high"]) == ("3.0", "0.0", "6.0")
    assert (line["cola_difference"], line["cola_verdict"], line["cola_collapsed"]) == ("-37.0", "below", "1")
    assert "cola_test" not in line


def test_what_the_server_answered_is_a_table_of_its_own() -> None:
    content = table()
    assert "GLUE server" not in text.markdown(content)
    content["rows"][2]["test"] = {"cola": 38.5, "ax": 12.0, "glue": None}
    said = text.markdown(content)
    assert "| GLUE server (test) | CoLA | AX |\n|---|---:|---:|\n| composite | 38.5 | 12.0 |" in said


@pytest.mark.parametrize("width", [40, 250])
def test_the_terminal_shows_every_number_whole(width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    text.terminal(table(), console)
    shown = console.export_text()
    assert all(word in shown for word in ("41.5 ± 0.5 (42.0)", "40.0 (+1.5) reproduced", "1 collapsed", "1 failed", "holds"))


def test_all_five_files_are_written(tmp_path: Path) -> None:
    write.write(tmp_path, table())
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"table.{kind}" for kind in ("csv", "html", "json", "md", "tex")]


def test_latex_letters_mean_themselves() -> None:
    assert escape("a_b & 50 % {x} −1 < 2") == r"a\_b \& 50 \% \{x\} $-$1 $<$ 2"
    made = latex(table())
    assert r"\quad\emph{printed} & & & 40.0 {\scriptsize(+1.5)} & 66.0 {\scriptsize(+1.0)} &  \\" in made
    assert r"fixed $<$b$>$" in made
    assert r"\textbf{41.5{\scriptsize\,$\pm$\,0.5}}" in made


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
def test_latex_compiles(tmp_path: Path) -> None:
    body = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n" + latex(table()) + "\\end{document}\n"
    (tmp_path / "page.tex").write_text(body, encoding="utf-8")
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "booktabs.sty' not found" in done.stdout:
        pytest.skip("no booktabs on this machine")
    assert done.returncode == 0, done.stdout[-2000:]
