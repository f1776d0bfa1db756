"""Files of a task of the user's own: what each format means, and what is refused with file and
line."""

from dataclasses import replace
from pathlib import Path

import pytest

from glue_tasks import write
from relpos.data.glue import OwnFiles, read
from relpos.data.tasks import Task
from relpos.errors import RelposError

PAIRS = Task(
    name="mine", folder="", sentences=["a", "b"], label="y", labels=["no", "yes"], columns=["mine"], dev={"mine": "dev"},
    test={"mine": "test"}, metric="relpos.train.metrics.accuracy", batch=2, steps=1, lr=1e-3, rows=1,
)  # fmt: skip


def rows(folder: Path, split: str = "train") -> list[tuple[str, str, object]]:
    split_rows = read(OwnFiles(folder), PAIRS, split)
    assert split_rows.sentence_b is not None
    labels = split_rows.labels or [None] * len(split_rows)
    return list(zip(split_rows.sentence_a, split_rows.sentence_b, labels, strict=True))


def refusal(folder: Path, split: str = "train") -> str:
    with pytest.raises(RelposError) as caught:
        rows(folder, split)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.tsv", "y\ta\tid\tb\nno\tone\tx1\ttwo\nyes\tthree\tx2\tfour\n"),
        ("train.csv", "y,a,id,b\nno,one,x1,two\n\nyes,three,x2,four\n"),
        (
            "train.jsonl",
            '{"a": "one", "b": "two", "y": "no"}\n{"b": "four", "y": "yes", "a": '
            '"three", "z": [1]}\n\n',
        ),
    ],
)
def test_a_format_is_read_by_the_names_of_its_columns(tmp_path, name, text):
    write(tmp_path, name, text)
    assert rows(tmp_path) == [("one", "two", 0), ("three", "four", 1)]


def test_csv_honours_quotes_and_line_ends_inside_them(tmp_path):
    write(tmp_path, "train.csv", 'a,b,y\n"one, ""1""","two\nlines",no\nx,y,maybe\n')
    assert refusal(tmp_path).startswith("train.csv line 4: label 'maybe' is outside the set.")
    write(tmp_path, "train.csv", 'a,b,y\n"one, ""1""","two\nlines",no\n')
    assert rows(tmp_path) == [('one, "1"', "two\nlines", 0)]


def test_a_field_of_csv_may_be_long(tmp_path):
    long = "long " * 30_000
    write(tmp_path, "train.csv", f"a,b,y\n{long},two,no\n")
    assert rows(tmp_path) == [(long, "two", 0)]


def test_tsv_takes_quotes_for_text(tmp_path):
    write(tmp_path, "train.tsv", 'a\tb\ty\n"one\ttwo"\tno\n')
    assert rows(tmp_path) == [('"one', 'two"', 0)]


def test_numbers_and_truth_values_of_json_are_spelled_as_json_does(tmp_path):
    write(tmp_path, "train.jsonl", '{"a": 1, "b": true, "y": "no"}\n')
    assert rows(tmp_path) == [("1", "true", 0)]


def test_a_test_file_needs_no_labels(tmp_path):
    write(tmp_path, "test.csv", "id,a,b,y\nx7,one,two,unknown\n")
    assert rows(tmp_path, "test") == [("one", "two", None)]


@pytest.mark.parametrize("name", ["id", "index"])
def test_a_column_of_text_may_be_called_id_or_index(tmp_path, name):
    write(tmp_path, "test.csv", f"{name},b\n7,one\ntwo,three\n")
    split_rows = read(OwnFiles(tmp_path), replace(PAIRS, sentences=[name, "b"]), "test")
    assert split_rows.sentence_a == ["7", "two"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("train.tsv", "a\tB\ty\none\ttwo\tno\n", "train.tsv: no column 'b'."),
        ("train.csv", "a,b,label\none,two,no\n", "train.csv: no column 'y'."),
        (
            "train.jsonl",
            '{"a": "one", "b": "two", "y": "no"}\n{"a": "one", "y": "no"}\n',
            "train.jsonl line 2: no column 'b'.",
        ),
        (
            "train.tsv",
            "a\tb\ty\none\ttwo\tno\none\ttwo\n",
            "train.tsv line 3: 2 columns where the header has 3",
        ),
        (
            "train.csv",
            "a,b,y\none,two,no\none,two,no,no\n",
            "train.csv line 3: 4 columns where the header has 3",
        ),
        ("train.csv", 'a,b,y\none,two,no\n"one,two,no\n', "train.csv line 3: not CSV"),
        (
            "train.jsonl",
            '{"a": "one", "b": "two", "y": "no"}\n{"a": "one", \n',
            "train.jsonl line 2: not JSON",
        ),
        ("train.jsonl", '["one", "two", "no"]\n', "train.jsonl line 1: an object"),
        (
            "train.jsonl",
            '{"a": "one", "b": null, "y": "no"}\n',
            "train.jsonl line 1: column 'b' holds null",
        ),
        ("train.csv", "a,b,y,y\none,two,no,no\n", "train.csv: two columns 'y'"),
        ("train.tsv", "", "train.tsv: the file is empty"),
        ("train.csv", "\n", "train.csv: the file is empty"),
        ("train.jsonl", "", "train.jsonl: the file is empty"),
        ("train.csv", "a,b,y\n", "train.csv: a header and no rows"),
        (
            "train.csv",
            "a;b;y\none, two;three;no\n",
            "train.csv line 1: its columns stand between ';'",
        ),
        ("train.csv", b"a,b,y\none,caf\xe9,no\n", "train.csv, line 2: not UTF-8"),
        (
            "train.tsv",
            "a\tb\ty\none\ttwo\tmaybe\n",
            "train.tsv line 2: label 'maybe' is outside the set. Known: no, yes.",
        ),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_line(tmp_path, name, text, message):
    write(tmp_path, name, text)
    assert refusal(tmp_path).startswith(message)


def test_two_files_of_a_split_are_refused(tmp_path):
    write(tmp_path, "train.csv", "")
    write(tmp_path, "train.jsonl", "")
    assert "both train.csv and train.jsonl" in refusal(tmp_path)


def test_a_missing_file_is_named_and_so_is_a_missing_folder(tmp_path):
    assert "no dev.tsv, dev.csv or dev.jsonl" in refusal(tmp_path, "dev")
    assert "there is no folder" in refusal(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["train.tsv", "train.csv", "train.jsonl"])
def test_a_nul_byte_is_named_with_its_line(tmp_path, name):
    write(tmp_path, name, "a,b,y\none,two,no\nthree\0,four,yes\n")
    if name.endswith("l"):
        write(tmp_path, name, '{"a": "one", "b": "two", "y": "no"}\n\n{"a": "o\0ne"}\n')
    assert refusal(tmp_path) == f"{name} line 3: a NUL byte, which no text holds"
