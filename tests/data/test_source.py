"""Folders and files of text: what is read (textfile), what is refused, what they are known by
(filehash)."""

import gzip
import lzma
from pathlib import Path

import pytest
import zstandard

from relpos.data.source import Files, Hub, Toy
from relpos.errors import RelposError
from relpos.files import write_json
from relpos.readers import sha256


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("RELPOS_DATA", raising=False)


def text_of(corpus: Path) -> dict[str, list[str]]:
    return {
        document.source: [line for line in document.lines if line]
        for document in Files(corpus=str(corpus)).documents()
    }


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstandard.compress)],
)
def test_compressed_text_reads_like_plain(tmp_path, suffix, pack):
    (tmp_path / f"a.txt{suffix}").write_bytes(pack("Größe.\nTwo.\n".encode()))
    assert text_of(tmp_path) == {f"a.txt{suffix}": ["Größe.", "Two."]}


def test_all_frames_of_a_file_are_read(tmp_path):
    frames = [
        zstandard.compress(text.encode() * 30_000) for text in ("One of many.\n", "", "Größe.\n")
    ]
    (tmp_path / "a.txt.zst").write_bytes(b"".join(frames))
    assert text_of(tmp_path) == {"a.txt.zst": ["One of many."] * 30_000 + ["Größe."] * 30_000}


@pytest.mark.parametrize("end", ["\r\n", ""])
def test_byte_order_mark_and_carriage_returns_are_dropped(tmp_path, end):
    (tmp_path / "a.txt").write_bytes(f"\ufeffOne.{end}Two.{end}".encode())
    assert text_of(tmp_path) == {"a.txt": ["One.", "Two."] if end else ["One.Two."]}


def test_a_line_longer_than_a_block_loses_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("wörter " * 400_000, encoding="utf-8")
    parts = text_of(tmp_path)["a.txt"]
    assert len(parts) > 1
    assert "".join(parts) == "wörter " * 400_000


def test_only_text_is_read_and_folders_are_searched(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("b/x.tokens", "a.txt", "childes.train", "books.tsv", ".hidden.txt", "c.gz"):
        (tmp_path / name).write_text("One.\n")
    assert list(text_of(tmp_path)) == ["a.txt", "b/x.tokens", "childes.train"]


def test_linked_folders_are_searched_once_and_real_names_count(tmp_path):
    for name in ("corpus/b/x.txt", "corpus/b/y.txt", "other/z.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("One.\n")
    for link, target in {
        "a": "corpus/b",
        "b/circle": "corpus",
        "c": "other",
        "d": "other",
        ".e": "other",
    }.items():
        (tmp_path / "corpus" / link).symlink_to(tmp_path / target)
    assert list(text_of(tmp_path / "corpus")) == [
        "b/x.txt",
        "b/y.txt",
        "c/z.txt",
    ]


def test_one_file_is_a_corpus(tmp_path):
    (tmp_path / "a.txt").write_text("One.\n")
    assert list(text_of(tmp_path / "a.txt")) == ["a.txt"]


def test_text_that_is_not_utf8_names_file_and_line(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"One.\n" * 300_000 + b"Gr\xf6\xdfe\n")
    with pytest.raises(RelposError, match=r"a\.txt, line 300001: not UTF-8"):
        text_of(tmp_path)


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstandard.compress)],
)
def test_a_broken_archive_names_the_file(tmp_path, suffix, pack):
    (tmp_path / f"a.txt{suffix}").write_bytes(pack(b"One.\n" * 10_000)[:-20])
    with pytest.raises(
        RelposError,
        match=rf"a\.txt\{suffix}, near line \d+: (Compressed file ended|Truncated compressed stream)",
    ):
        text_of(tmp_path)


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ("{here}/nowhere", r"no folder or file .*nowhere"),
        ("{here}", "no text file"),
        (None, r"data\.root=FOLDER"),
    ],
)
def test_a_place_without_text_is_refused(corpus, message, tmp_path):
    with pytest.raises(RelposError, match=message):
        Files(corpus=corpus and corpus.format(here=tmp_path)).files()


def test_the_root_holds_corpus_and_glue(tmp_path):
    source = Files(root=str(tmp_path), glue=str(tmp_path / "elsewhere"))
    assert source.corpus_location() == tmp_path / "corpus"
    assert source.glue_location().folder == tmp_path / "elsewhere"


def test_relpos_data_is_the_root_by_default(tmp_path, monkeypatch):
    monkeypatch.setenv("RELPOS_DATA", str(tmp_path))
    assert Files().corpus_location() == tmp_path / "corpus"
    assert Files(root="real").glue_location().folder == tmp_path / "real" / "glue"


def test_files_are_known_by_name_size_and_hash(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("One.\n")
    identity = Files(root=str(tmp_path)).identity()
    assert identity is not None
    (name, size, digest) = identity["files"][0]
    assert (name, size, len(digest)) == ("a.txt", 5, 64)


def test_a_changed_file_has_another_identity(tmp_path):
    (tmp_path / "a.txt").write_text("One.\n")
    before = Files(corpus=str(tmp_path)).identity()
    (tmp_path / "a.txt").write_text("Other.\n")
    assert Files(corpus=str(tmp_path)).identity() != before


def test_a_task_is_known_by_its_files(tmp_path):
    (tmp_path / "glue" / "STS-B").mkdir(parents=True)
    for name in ("train.tsv", "._train.tsv", ".DS_Store"):
        (tmp_path / "glue" / "STS-B" / name).write_text("x\n")
    identity = Files(root=str(tmp_path)).glue_identity({"name": "stsb", "folder": "STS-B"})
    assert identity is not None
    assert [name for name, *_ in identity["files"]] == ["STS-B/train.tsv"]


def test_a_hub_text_is_known_by_id_configuration_and_revision():
    identity = Hub(texts=[{"id": "a/b", "revision": "r"}]).identity()
    assert identity is not None
    assert identity["hub"] == [
        {
            "id": "a/b",
            "config": None,
            "revision": "r",
            "split": "train",
            "text": "text",
            "unique": False,
        }
    ]


def test_an_unknown_key_of_a_hub_text_is_refused():
    with pytest.raises(RelposError, match=r"revison'.*'revision'"):
        Hub(texts=[{"id": "a/b", "revison": "r"}]).identity()


@pytest.mark.parametrize(
    "name", ["corpus/1.txt", "corpus/2.txt", "glue/RTE/dev.tsv", "glue/RTE/train.tsv"]
)
@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_text("another")])
def test_toy_files_that_have_changed_are_refused(tmp_path, name, harm):
    files = [
        tmp_path / written for written in ("corpus/1.txt", "glue/RTE/dev.tsv", "glue/RTE/train.tsv")
    ]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text")
    write_json(
        tmp_path / "record.json",
        {"files": {file.relative_to(tmp_path).as_posix(): sha256(file) for file in files}},
    )
    assert Toy().at(tmp_path).glue_location().folder == tmp_path / "glue"
    if (tmp_path / name) in files:
        harm(tmp_path / name)
    else:
        (tmp_path / name).write_text("more text")
    with pytest.raises(RelposError, match=name):
        Toy().at(tmp_path)
