"""Text in a column of JSONL, CSV or Parquet: what is read, what it is known by, what is refused."""

import csv
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest
import zstandard

from relpos.data.source import Files
from relpos.errors import RelposError

TEXTS = [
    "Die Straße ist lang. Sie führt nach Köln.\nEin Absatz.",
    "NA",
    "Größe, „Anführung“ und 1,5.",
    "null",
]


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.delenv("RELPOS_DATA", raising=False)


def rows(texts: list[Any], column: str = "text") -> list[dict[str, Any]]:
    return [{"id": number, column: text} for number, text in enumerate(texts)]


def jsonl(path: Path, *arguments: Any) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(*arguments)), encoding="utf-8")


def table(path: Path, *arguments: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows(*arguments)[0]))
        writer.writeheader()
        writer.writerows(rows(*arguments))


def parquet(path: Path, *arguments: Any) -> None:
    datasets.Dataset.from_list(rows(*arguments)).to_parquet(path)


WRITERS: dict[str, Callable[..., None]] = {"a.jsonl": jsonl, "a.csv": table, "a.parquet": parquet}
PACKERS = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}


def documents(corpus: Path, **keys: Any) -> list[str]:
    source = Files(corpus=str(corpus), **keys)
    return ["\n".join(document.lines).strip() for document in source.documents()]


@pytest.mark.parametrize("name", WRITERS)
def test_each_row_is_a_document(name, tmp_path):
    WRITERS[name](tmp_path / name, TEXTS)
    assert documents(tmp_path) == TEXTS
    assert documents(tmp_path / name) == TEXTS


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_tables_of_text_may_be_compressed(name, packed, tmp_path):
    WRITERS[name](tmp_path / name, TEXTS)
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / f"{name}{packed}").write_bytes(
        PACKERS[packed]((tmp_path / name).read_bytes())
    )
    assert documents(tmp_path / "packed") == TEXTS


@pytest.mark.parametrize(
    "name", ["a[1].jsonl", "a*.jsonl", "[[a.jsonl", "a::b.jsonl", "zip:/a.jsonl", "x [1]/a.jsonl"]
)
def test_a_file_name_is_no_pattern_and_no_address(name, tmp_path):
    for file, texts in ((name, TEXTS), ("a1.jsonl", ["other"]), ("x 1/a.jsonl", ["other"])):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        jsonl(tmp_path / file, texts)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    assert documents(tmp_path / name) == documents(tmp_path / f"{name}.gz") == TEXTS


@pytest.mark.parametrize("name", WRITERS)
def test_a_column_that_is_not_called_text_must_be_given(name, tmp_path):
    WRITERS[name](tmp_path / name, TEXTS, "body")
    assert documents(tmp_path, text="body") == TEXTS
    with pytest.raises(
        RelposError, match=r"^data\.text: .* has no column 'text'.* Known: body, id\."
    ):
        documents(tmp_path)


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_columns_without_commas_between_them_are_refused(mark, tmp_path):
    (tmp_path / "a.csv").write_text(f"id{mark}text\n1{mark}One, two.\n2{mark}Three.\n")
    with pytest.raises(
        RelposError,
        match=r"^\S*a\.csv line 1: its columns stand between .* write them between commas",
    ):
        documents(tmp_path)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_table_in_latin1_is_refused_with_its_line(name, tmp_path):
    rows = {
        "a.csv": "text\nOne.\nStraße.\n",
        "a.jsonl": '{"text": "One."}\n\n{"text": "Straße."}\n',
    }
    (tmp_path / name).write_bytes(rows[name].encode("latin-1"))
    with pytest.raises(RelposError, match=r"line 3: not UTF-8: iconv"):
        documents(tmp_path)


def test_several_rows_may_make_a_document(tmp_path):
    jsonl(tmp_path / "a.jsonl", [f"Row {number}." for number in range(5)])
    assert documents(tmp_path, lines=2) == ["Row 0.\nRow 1.", "Row 2.\nRow 3.", "Row 4."]


def test_markdown_is_read_as_it_stands(tmp_path):
    (tmp_path / "a.md").write_text("# Title\n\nOne *word*.\n")
    (tmp_path / "b.md.gz").write_bytes(gzip.compress(b"Two.\n"))
    assert documents(tmp_path) == ["# Title\n\nOne *word*.", "Two."]


def test_tables_and_markdown_beside_texts_are_read_only_on_request(tmp_path):
    (tmp_path / "a.txt").write_text("A text.\n")
    before = Files(corpus=str(tmp_path)).identity()
    (tmp_path / "README.md").write_text("About these texts.\n")
    jsonl(tmp_path / "from.jsonl", ["A row."])
    assert Files(corpus=str(tmp_path)).identity() == before
    assert documents(tmp_path) == ["A text."]
    assert documents(tmp_path, text="text") == ["A row."]
    assert documents(tmp_path / "README.md") == ["About these texts."]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "One."}\n{"text": \n', "a.jsonl line 2: not JSON"),
        (
            "a.jsonl",
            b'{"text": "One."}\n{"id": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
            "line 2: not JSON: nested too deep$",
        ),
        (
            "a.jsonl",
            b'{"text": "One.", "text": "Two."}',
            "a.jsonl line 1: not JSON: 'text' is given twice",
        ),
        ("a.csv", b"text,text\nOne.,Two.\n", "a.csv: two columns 'text'"),
        ("a.jsonl", b'{"text": 3}\n', "column 'text' holds 3, a text is expected"),
        ("a.parquet", b"PAR1 no Parquet", "a.parquet: "),
        (
            "a.json",
            b"[]",
            "no text file .*, .jsonl, .csv, .parquet, .md, .markdown, .*; it has .json, which",
        ),
        ("a.pdf", b"%PDF", "it has .pdf, which are not read"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_in_one_line(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RelposError, match=message) as refusal:
        documents(tmp_path)
    assert "\n" not in str(refusal.value)


def test_a_column_of_no_table_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("A text.\n")
    with pytest.raises(
        RelposError,
        match=r"data\.text=body is a column of a table, and no text file .*; it has \.txt",
    ):
        documents(tmp_path, text="body")


def test_a_table_of_several_frames_that_breaks_off_is_refused(tmp_path):
    # more than the block at which its header is looked for
    jsonl(tmp_path / "a.jsonl", TEXTS * 8_000)
    whole = zstandard.compress((tmp_path / "a.jsonl").read_bytes())
    (tmp_path / "a.jsonl").unlink()
    (tmp_path / "a.jsonl.zst").write_bytes(whole + whole[:-20])
    with pytest.raises(RelposError, match=r"a\.jsonl\.zst, near line "):
        documents(tmp_path)


def test_a_row_with_more_columns_than_the_header_is_refused(tmp_path):
    # pandas takes its first column for the row's name, and reads " dogs" as the text.
    (tmp_path / "a.csv").write_text("text,label\nI like cats, dogs,good\nI hate birds, cows,bad\n")
    with pytest.raises(RelposError, match=r"^\S*a\.csv line 2: 3 columns where the header has 2$"):
        documents(tmp_path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
@pytest.mark.parametrize(
    "texts", [["1984", "2001"], ["True", "False"], ["2001-02-03", "2001-02-04"]]
)
def test_numbers_and_dates_in_a_table_are_texts(texts, name, tmp_path):
    WRITERS[name](tmp_path / name, texts)
    assert documents(tmp_path) == texts


def test_a_row_is_read_whole_up_to_a_length_that_no_text_needs(tmp_path, monkeypatch):
    long = "word " * 500_000 + "end."
    jsonl(tmp_path / "a.jsonl", ["One.", long])
    assert documents(tmp_path) == ["One.", long]
    monkeypatch.setattr("relpos.data.textfile.LONGEST", 1_000_000)
    with pytest.raises(RelposError, match=r"a\.jsonl line 2: longer than 1,000,000 characters"):
        documents(tmp_path)
