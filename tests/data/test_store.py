"""A store holds what was written, is whole or is none, and keeps documents together: writer,
encoding, sentences, store."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relpos.data import encoding
from relpos.data.documents import Document
from relpos.data.heldout import chosen
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.store import MANIFEST, Store, tell, write_store
from relpos.data.tokenizer import Tokenizer, train_tokenizer
from relpos.errors import RelposError

TEXTS = {
    f"book {i}": [f"The {word} dog number {i} ran.", f"It saw a {word} cat.", "Then it slept."]
    for i, word in enumerate(["old", "new", "red", "sad", "tall", "low"])
}


Texts = Mapping[str, Iterable[str]]
"""Name of a document → its paragraphs."""


def documents() -> Iterator[Document]:
    return (Document(source, iter(lines)) for source, lines in TEXTS.items())


def sources(folder: Path) -> list[str]:
    return (folder / "sources.txt").read_text(encoding="utf-8").splitlines()


def sentences_of(store: Store, document: int) -> list[np.ndarray]:
    """The ids of a document's sentences."""
    first, last = store.documents[document : document + 2]
    return [store.ids[a:b] for a, b in pairwise(store.sentences[first : last + 1])]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(documents(), folder, 60, 1000, 1)
    return load_tokenizer(folder)


def written(folder: Path, tokenizer: Tokenizer, texts: Texts, share: float = 0.2) -> Store:
    documents = (Document(source, iter(lines)) for source, lines in texts.items())
    write_store(documents, tokenizer, folder, share)
    return Store(folder)


@pytest.fixture
def folder(tmp_path: Path, tokenizer: Tokenizer) -> Path:
    write_store(documents(), tokenizer, tmp_path / "store", 0.2)
    return tmp_path / "store"


def test_a_store_gives_back_its_text(folder, tokenizer):
    store = Store(folder)
    read = {
        source: [tokenizer.decode(ids) for ids in sentences_of(store, i)]
        for i, source in enumerate(sources(folder))
    }
    assert read == {source: [line.lower() for line in lines] for source, lines in TEXTS.items()}


def test_a_paragraph_becomes_its_sentences(tmp_path, tokenizer):
    store = written(tmp_path, tokenizer, {"a": ["One ran. Two ran! Did three?"]} | TEXTS)
    assert len(sentences_of(store, 0)) == 3


def test_documents_without_a_sentence_leave_no_trace(tmp_path, tokenizer):
    written(tmp_path, tokenizer, {"empty": ["", "  ", "\u200b"]} | TEXTS)
    assert sources(tmp_path) == list(TEXTS)


def test_a_file_name_that_is_not_utf8_is_escaped(tmp_path, tokenizer):
    written(tmp_path, tokenizer, {"caf\udce9.txt": ["One ran."]} | TEXTS)
    assert sources(tmp_path) == [r"caf\udce9.txt", *TEXTS]


def test_every_example_is_in_one_split(folder):
    store = Store(folder)
    assert len(store.examples("train")) + len(store.examples("heldout")) == len(TEXTS)
    assert len(store.examples("heldout")) > 0


def test_writing_again_gives_the_same_bytes(folder, tmp_path, tokenizer):
    assert written(tmp_path / "again", tokenizer, TEXTS).manifest == Store(folder).manifest


def test_other_processes_write_the_same_bytes(folder, tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(encoding, "ALONE", 0)
    write_store(documents(), tokenizer, tmp_path / "again", 0.2, processes=2)
    assert Store(tmp_path / "again").manifest == Store(folder).manifest


def test_an_error_in_the_text_leaves_no_store(tmp_path, tokenizer):
    def broken() -> Iterator[str]:
        yield "One."
        raise RelposError("a.txt, line 2: not UTF-8")

    written(tmp_path, tokenizer, TEXTS)
    with pytest.raises(RelposError, match="line 2"):
        written(tmp_path, tokenizer, {"a": broken()})
    with pytest.raises(RelposError, match="not finished"):
        Store(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path, tokenizer, monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("relpos.data.store.os.fsync", full)
    with pytest.raises(RelposError, match=r"cannot write .* MB free\): No space left"):
        written(tmp_path, tokenizer, TEXTS)
    assert not list(tmp_path.iterdir())


def test_text_of_which_no_token_is_known_is_refused_at_its_beginning(
    tmp_path, tokenizer, monkeypatch
):
    def text() -> Iterator[str]:
        yield "丁. 丁? 丁! " * 100_000
        pytest.fail("everything is read")

    monkeypatch.setattr(
        tokenizer, "encode", lambda texts: [np.full(1, tokenizer.unk, np.int32) for _ in texts]
    )
    with pytest.raises(RelposError, match="knows none of the text's first"):
        write_store(iter([Document("a", text())]), tokenizer, tmp_path, 0.2, processes=1)


def test_a_store_of_no_text_is_refused(tmp_path, tokenizer):
    with pytest.raises(RelposError, match="no sentences"):
        written(tmp_path, tokenizer, {})


@pytest.mark.parametrize(("share", "parts"), [(0.1, [90, 10]), (0.001, [98, 2]), (0.999, [2, 98])])
def test_of_a_single_document_the_end_is_held_out(tmp_path, tokenizer, share, parts):
    store = written(tmp_path, tokenizer, {"a": [f"Dog {i} ran." for i in range(100)]}, share)
    assert store.heldout.tolist() == [False, True]
    assert np.diff(store.documents).tolist() == parts


@pytest.mark.parametrize(
    ("file", "damaged", "message"),
    [
        (MANIFEST, None, r"no manifest\.json"),
        *[("ids.bin", damaged, r"damaged store: .*ids\.bin is not what the manifest says; delete")
          for damaged in (lambda content: content[:-2], lambda content: bytes([content[0] ^ 1]) + content[1:],
                          lambda content: bytes(len(content)), lambda content: np.random.default_rng(0).bytes(len(content)))],
        (MANIFEST, lambda content: content[:40], "store .*manifest.json.*: damaged: .*; delete"),
        *[(MANIFEST, lambda content, key=key: content.replace(key, b"x"), "store .*manifest.json.*: damaged: .*; delete")
          for key in (b"vocabulary", b"dtype", b"files", b"sha256")],
    ],
)  # fmt: skip
def test_a_store_that_is_not_whole_is_refused(file, damaged, message, folder):
    content = (folder / file).read_bytes()
    (folder / file).unlink()
    if damaged:
        (folder / file).write_bytes(damaged(content))
    with pytest.raises(RelposError, match=message):
        Store(folder)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"split": "dev"}, "split=dev: train or heldout is expected"),
        ({"split": "train", "packing": "pairs"}, "Did you mean 'pair'"),
        ({"split": "train", "length": 4}, "length=4"),
        ({"split": "train", "limit": 0}, "limit=0: a whole number"),
    ],
)
def test_wrong_arguments_of_examples_are_refused(folder, keys, message):
    with pytest.raises(RelposError, match=message):
        Store(folder).examples(**keys)  # type: ignore[arg-type]


def test_a_pair_is_read_from_the_store(folder, tokenizer):
    store = Store(folder)
    ids, lengths = store.examples("train").batch(torch.tensor([0]))
    first = sentences_of(store, int(np.flatnonzero(~store.heldout)[0]))
    assert ids[0, : lengths[0]].tolist() == [
        tokenizer.cls,
        *first[0],
        tokenizer.sep,
        *first[1],
        tokenizer.sep,
    ]


hashes = st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=40)


@settings(max_examples=100, deadline=None)
@given(hashes=hashes, share=st.floats(0.001, 0.999))
def test_some_documents_are_held_out_and_never_all(hashes, share):
    flags = chosen(np.asarray(hashes, np.uint64), share)
    assert flags.any()
    assert not flags.all()


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_document_that_is_too_large_is_cut(tmp_path, tokenizer, share):
    sizes = {"large": 900, "small": 100}
    texts = {name: [f"Dog {i} of {name} ran." for i in range(n)] for name, n in sizes.items()}
    store = written(tmp_path, tokenizer, texts, share)
    tokens = np.diff(store.sentences[store.documents])
    assert tokens[store.heldout].sum() / tokens.sum() == pytest.approx(share, abs=0.005)
    assert sources(tmp_path)[:2] == ["large", "large (its end)"]
    assert store.heldout[:2].tolist() == [False, True]


def test_generated_documents_are_held_out_whole(tmp_path, tokenizer):
    texts = [Document(f"{i}", iter(f"Dog {i} of {j} ran." for j in range(200))) for i in range(3)]
    write_store(iter(texts), tokenizer, tmp_path, 0.01, alike=True)
    assert sources(tmp_path) == ["0", "1", "2"]
    assert Store(tmp_path).heldout.sum() == 1


def test_a_line_says_what_was_read_and_what_is_held_out_and_unknown(tmp_path, tokenizer, capsys):
    store = written(tmp_path, tokenizer, {"a": ["丁 丁 丁 丁."] * 9} | TEXTS)
    tell(tmp_path)
    unknown = int((store.ids == tokenizer.unk).sum())
    assert 0 < unknown == store.manifest.unknown
    stderr = capsys.readouterr().err
    assert stderr.startswith("relpos: 7 documents, 27 sentences, ")
    assert f" and {unknown / len(store.ids):.2%} unknown to the tokenizer" in stderr


def test_a_manifest_that_counts_what_was_left_out_is_read(folder):
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {"dropped": {"headings": 1200}}))
    assert len(Store(folder).documents) > 1


def test_about_the_given_share_of_documents_is_chosen():
    drawn = np.random.default_rng(0).integers(0, 2**64, 20_000, np.uint64)
    assert chosen(drawn, 0.1).mean() == pytest.approx(0.1, abs=0.01)
