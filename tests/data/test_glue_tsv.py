"""TSV files: what is a row, and what is refused with file and line."""

from pathlib import Path
from typing import Any

import pytest

from glue_tasks import task, write
from relpos.data.glue import TsvGlue
from relpos.data.table import TextTable, read_table
from relpos.errors import RelposError

HEADER = "index\tsentence1\tsentence2\tlabel\n"


def table(folder: Path, content: str | bytes, **options: Any) -> TextTable:
    return read_table(write(folder, "t.tsv", content), **options)


def refusal(path: Path) -> str:
    with pytest.raises(RelposError) as caught:
        read_table(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("content", "header", "rows"),
    [
        pytest.param(
            'a\tb\n"one\ttwo\n"" three\tfo"ur\n',
            ["a", "b"],
            [['"one', "two"], ['"" three', 'fo"ur']],
            id="quotes",
        ),
        pytest.param(
            "a\nx\u2028y\x85z\x0b\x0c\x1c!\n",
            ["a"],
            [["x\u2028y\x85z\x0b\x0c\x1c!"]],
            id="line feeds alone end lines",
        ),
        pytest.param("a\tb\r\n1\t2\r\n", ["a", "b"], [["1", "2"]], id="line ends of Windows"),
        pytest.param(b"\xef\xbb\xbfQuality\n1\n", ["Quality"], [["1"]], id="byte order mark"),
        pytest.param("a\n1\n2", ["a"], [["1"], ["2"]], id="no last line end"),
        pytest.param("a\tb\n\t\n", ["a", "b"], [["", ""]], id="empty fields"),
    ],
)
def test_fields_are_what_stands_between_tabs_and_line_feeds(content, header, rows, tmp_path):
    tsv = table(tmp_path, content)
    assert (list(tsv.header), tsv.rows) == (header, rows)


def test_file_without_header_starts_at_its_first_line(tmp_path):
    tsv = table(tmp_path, "x\t1\ny\t0", header=["text", "label"])
    assert tsv.column("text") == ["x", "y"]
    assert tsv.where(1).endswith("line 2")


@pytest.mark.parametrize("row", ["1\tx\ty", "1\tx\ty\t0\t0", ""])
def test_ragged_row_is_refused_with_its_line(tmp_path, row):
    message = refusal(write(tmp_path, "t.tsv", f"{HEADER}0\ta\tb\t1\n{row}\n2\ta\tb\t1\n"))
    assert f"line 3: {row.count(chr(9)) + 1} column" in message
    assert "header has 4" in message


@pytest.mark.parametrize("broken", ['1\tx\n"\ty\t0', "1\tx\n\n z\ty\t0", "1\tx\ty\n\t0"])
def test_rows_broken_by_line_ends_are_left_out(tmp_path, broken):
    tsv = table(tmp_path, f"{HEADER}0\ta\tb\t1\n{broken}\n2\ta\tb\t1\n", broken=True)
    assert tsv.column("index") == ["0", "2"]
    assert tsv.where(1).endswith(f"line {4 + broken.count(chr(10))}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        (HEADER, "no rows"),
        (b"a\nfine\ncaf\xe9\nfine\n", "line 3: not UTF-8"),
        (b"\xef\xbb\xbfa\nfine\ncaf\xe9\nfine\n", "line 3: not UTF-8"),
    ],
)
def test_a_file_without_rows_or_not_in_utf8_is_refused(content, message, tmp_path):
    assert message in refusal(write(tmp_path, "t.tsv", content))


def test_folder_in_place_of_a_file_is_refused(tmp_path):
    assert str(tmp_path) in refusal(tmp_path)


def test_missing_files_are_named(tmp_path):
    glue = TsvGlue(tmp_path)
    write(tmp_path, "CoLA-1/train.tsv", "x")
    with pytest.raises(RelposError, match=r"CoLA/train\.tsv.* 'CoLA-1'"):
        glue.table(task("cola"), "train")
    with pytest.raises(RelposError, match="no GLUE folder"):
        TsvGlue(tmp_path / "nowhere").table(task("cola"), "train")


def test_unknown_column_names_the_nearest(tmp_path):
    tsv = table(tmp_path, "sentence\tlabels\nx\t1\n")
    with pytest.raises(RelposError, match=r"no column 'label'\. Did you mean 'labels'"):
        tsv.column("label")


@pytest.mark.parametrize("name", ["AX/test.tsv", "diagnostic/diagnostic.tsv"])
def test_diagnostic_set_is_found_under_both_names(tmp_path, name):
    glue = TsvGlue(tmp_path)
    assert not glue.has(task("mnli"), "ax")
    write(tmp_path, name, "index\tsentence1\tsentence2\n0\ta\tb")
    assert glue.has(task("mnli"), "ax")
    assert glue.table(task("mnli"), "ax").column("sentence2") == ["b"]
