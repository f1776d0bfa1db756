"""Tables as text: whatever stands in `table.json` is shown, and what does not is missing, never
zero."""

import csv
import io
import shutil
import subprocess
import warnings
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from relpos.results.plateau import Onset
from relpos.results.values import GLUE
from relpos.tables.render import pictures, text
from relpos.tables.render.text import in_latex, latex
from relpos.tables.render.view import view_of
from relpos.tables.rows import summary
from relpos.tables.table import Row, Table
from tables.written_table import table

WITHOUT_TASKS = Table(
    "no_tasks",
    "are λ and β alike?",
    [Row("tupe_a", parameters=5, perplexity=3.0), Row("a|b <i>*c*")],
)


def test_the_papers_numbers_stand_beside_ours():
    lines = text.markdown(view_of(table())).splitlines()
    assert "| printed (ours − printed) inside or outside our 95 % interval | CoLA | RTE |" in lines
    assert "| composite | 40.0 (+1.5) inside | 66.0 (+1.0) |" in lines
    assert "| dynamic | 40.0 | 66.0 |" in lines


def test_failed_and_collapsed_runs_are_counted():
    lines = text.markdown(view_of(table())).splitlines()
    assert (
        "| none | 1,000,000 | 20.00 | 1 × 2 | 3.0 ± 3.0 (6.0), 1 collapsed | 54.0 ± 1.0 (55.0) | "
        "28.5 ± 2.0 (30.5) |" in lines
    )
    assert any("67.0, n=1, 1 failed" in line for line in lines if line.startswith("| composite |"))


def test_a_row_that_was_not_run_is_missing_everywhere():
    view = view_of(table())
    assert "| dynamic | — | — | 0/1 × 0/2 | — | — | — |" in text.markdown(view)
    line = next(
        line
        for line in csv.DictReader(io.StringIO(text.comma_separated(view)))
        if line["row"] == "dynamic"
    )
    assert {key: text for key, text in line.items() if text} == {
        "row": "dynamic",
        "n": "0",
        **{
            f"{name}_{part}": text
            for name, text in (("cola", "40.0"), ("rte", "66.0"))
            for part in ("printed",)
        },
        **{f"{name}_n": "0" for name in ("cola", "rte", "mean_of_2")},
    }
    assert (
        r"dynamic & --- & --- & 0/1{\scriptsize{} $\times$ 0/2} & --- & --- & --- " + "\\\\"
        in latex(view)
    )


def test_a_table_without_glues_columns_has_no_mean():
    view = view_of(
        Table(
            "own",
            "is it learned?",
            [Row("none", columns={"answers": summary({(0, 0): 50.0, (0, 1): 52.0})})],
        )
    )
    assert "| row | answers |" in text.markdown(view)
    assert next(csv.DictReader(io.StringIO(text.comma_separated(view))))["answers"] == "51.0"
    assert "mean" not in text.comma_separated(view)


def test_scores_of_the_glue_server_are_a_table_of_their_own():
    whole = table()
    assert "GLUE server" not in text.markdown(view_of(whole))
    row = replace(whole.rows[2], server={"ax": 12.0, "cola": 0.0})
    page = text.markdown(view_of(replace(whole, rows=[*whole.rows[:2], row, whole.rows[3]])))
    assert "| GLUE server (test) | CoLA | AX |\n|---|---:|---:|\n| composite | 0.0 | 12.0 |" in page
    row = replace(row, server=dict.fromkeys(GLUE, 54.0) | {"wnli": 65.1})
    assert "| WNLI | GLUE |" in (page := text.markdown(view_of(replace(whole, rows=[row]))))
    assert "| 54.0 | 65.1 | 54.0 |" in page


@pytest.mark.parametrize("width", [30, 250])
def test_the_terminal_shows_every_number_whole(width):
    console = Console(width=width, record=True, file=io.StringIO())
    text.terminal(view_of(table()), console)
    shown = console.export_text()
    assert all(
        word in shown
        for word in (
            "1,000,000",
            "41.5 ± 0.5 (42.0)",
            "40.0 (+1.5) inside",
            "1 collapsed",
            "1 failed",
        )
    )


def test_all_five_files_are_written(tmp_path):
    text.write(tmp_path, view_of(table()))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"table.{kind}" for kind in ("csv", "html", "json", "md", "tex")
    ]


def test_a_network_of_no_steps_has_no_curve(tmp_path):
    rows = [Row("untrained", heldout_loss=[(0, 9.0)]), Row("a", heldout_loss=[(0, 9.0), (5, 6.0)])]
    with warnings.catch_warnings(action="error"):
        pictures.draw_losses(tmp_path / "curves.png", rows)
        pictures.draw_losses(tmp_path / "none.png", rows[:1])
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]


def test_special_characters_are_escaped_in_latex():
    assert in_latex("a_b & 50 % {x} −1 < 2") == r"a\_b \& 50 \% \{x\} $-$1 $<$ 2"
    assert in_latex("position=fixed → composite") == r"position=fixed $\to$ composite"
    source = latex(view_of(table()))
    assert r"composite & 40.0 (+1.5) inside & 66.0 (+1.0) \\" in source
    assert r"fixed $<$b$>$" in source
    assert r"\textbf{41.5{\scriptsize{} $\pm$ 0.5 (42.0)}}" in source


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
@pytest.mark.parametrize("whole", [table(), WITHOUT_TASKS], ids=lambda whole: whole.name)
def test_latex_compiles(whole, tmp_path):
    body = (
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
        + latex(view_of(whole))
        + "\\end{document}\n"
    )
    (tmp_path / "page.tex").write_text(body, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "booktabs.sty' not found" in done.stdout:
        pytest.skip("no booktabs on this machine")
    assert done.returncode == 0, done.stdout[-2000:]


def test_a_markdown_parser_reads_each_text_as_it_was():
    whole = replace(WITHOUT_TASKS, question="is a < b | c, and <i>why</i> [so]?")
    read = MarkdownIt("commonmark").enable("table").parse(text.markdown(view_of(whole)))
    tokens = [child for token in read if token.type == "inline" for child in token.children or ()]
    texts = [
        "".join(child.content for child in token.children or ())
        for token in read
        if token.type == "inline"
    ]
    assert texts[1] == "is a < b | c, and <i>why</i> [so]?"
    assert texts[5:11] == ["tupe_a", "5", "3.00", "a|b <i>*c*", "—", "—"]
    assert {token.type for token in tokens} == {"text"}


def test_brackets_in_names_are_no_markup_on_the_terminal():
    console = Console(file=io.StringIO(), width=400)
    row = Row("fixed[k=8]", columns={"rte": summary({(0, 0): 60.0})}, on_plateau=True)
    text.terminal(view_of(Table("t", "?", [row])), console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.split() for line in lines if "[k=8]" in line] == [
        ["fixed[k=8]", "60.0"],
        ["fixed[k=8]", "plateau"],
    ]


def test_order_and_rates_are_a_side_table_that_the_notes_explain():
    """A row on the plateau shows no share of known order."""
    onsets = {
        "none": Onset(None, 8e6, None),
        "sine": Onset(None, 8e6, None),
        "rope": Onset(2.6e6, 2e6, 4e6),
    }
    knows = {"none": (0.0, True), "sine": (0.81, True), "rope": (1.0, False)}
    rows = [
        Row(
            name,
            order_known=share,
            on_plateau=on_plateau,
            order_found=onsets[name],
            position_lr=3.0,
            perplexity=9.0,
        )
        for name, (share, on_plateau) in knows.items()
    ]
    whole = Table("t", "?", rows, tuned="sweep", made="Runs were made here.")
    lines = text.markdown(view_of(whole)).splitlines()
    assert lines[
        lines.index("| order and rates | order known | half known after | position_lr |") + 2 :
    ][:3] == [
        "| none | plateau | later than 8 | 3 |",
        "| sine | plateau | later than 8 | 3 |",
        "| rope | 100 % | 2.6 (2 to 4) | 3 |",
    ]
    assert "81" not in "".join(lines)
    heads = [line.removeprefix("- ").partition(" ")[0] for line in lines if line.startswith("- ")]
    assert heads == ["Order", "Plateau:", "Half", "position_lr", "Runs"]
    bare = view_of(Table("t", "?", [Row("a", perplexity=9.0)]))
    assert (bare.notes, bare.side_tables) == ([], [])
