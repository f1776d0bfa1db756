"""The tokenizer: ids, case folding, sampling."""

from collections.abc import Iterator

import pytest

from relpos.data.documents import UNKNOWN, Document
from relpos.data.tokenizer import FILE, Tokenizer, reservoir, train_tokenizer
from relpos.errors import RelposError

TEXT = [
    f"The {a} dog sees a {b} cat near the {c} house ."
    for a in ["old", "new", "big"]
    for b in ["red", "sad"]
    for c in ["tall", "low"]
]


def documents() -> Iterator[Document]:
    yield Document("a", iter(TEXT * 5))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(documents(), folder, 60, 1000, 1)
    return Tokenizer.load(folder)


def test_special_ids_come_first(tokenizer):
    assert [tokenizer.processor.id_to_piece(i) for i in range(5)] == [
        "[PAD]",
        "<unk>",
        "[CLS]",
        "[SEP]",
        "[MASK]",
    ]


def test_case_is_folded(tokenizer):
    upper, lower = tokenizer.encode(["THE OLD DOG", "the old dog"])
    assert upper.tolist() == lower.tolist()


def test_text_comes_back_folded(tokenizer):
    assert tokenizer.decode(tokenizer.encode(["The big dog"])[0]) == "the big dog"


def test_special_names_in_a_text_are_text(tokenizer):
    assert not {0, 2, 3, 4} & set(tokenizer.encode(["[MASK] [CLS] [SEP] [PAD]"])[0].tolist())


def test_wikitexts_unknown_word_is_the_unknown_id(tokenizer):
    assert tokenizer.encode([f"old {UNKNOWN} dog"])[0].tolist().count(tokenizer.unk) == 1


def test_the_size_counts_every_id(tmp_path):
    train_tokenizer(documents(), tmp_path, 27, 1000, 1)
    assert Tokenizer.load(tmp_path).size == 27


def test_a_small_text_yields_fewer_pieces(tmp_path):
    train_tokenizer(documents(), tmp_path, 30_004, 1000, 1)
    assert 5 < Tokenizer.load(tmp_path).size < 30_004


def test_training_is_repeatable(tmp_path):
    for name in "ab":
        train_tokenizer(documents(), tmp_path / name, 60, 20, 1)
    assert (tmp_path / "a" / FILE).read_bytes() == (tmp_path / "b" / FILE).read_bytes()


def test_a_tokenizer_of_no_text_is_refused(tmp_path):
    with pytest.raises(RelposError, match="no sentences"):
        train_tokenizer(iter([]), tmp_path, 60, 1000, 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("vocabulary", [1, 6])
def test_a_vocabulary_below_the_characters_is_refused_with_the_least_that_will_do(
    tmp_path, vocabulary
):
    message = rf"^vocabulary={vocabulary}: too small .* the 5 special tokens make (\d+) ids: vocabulary=\1 or more$"
    with pytest.raises(RelposError, match=message):
        train_tokenizer(documents(), tmp_path, vocabulary, 1000, 1)


def test_sentences_too_long_to_train_on_are_named_with_the_way_out(tmp_path):
    line = "words without an end " * 1000
    with pytest.raises(
        RelposError,
        match=r"^data: all sentences are longer than 4,192 bytes.*on a line of its own$",
    ):
        train_tokenizer(iter([Document("a", iter([line]))]), tmp_path, 60, 1000, 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, r"tokenizer\.model: no such file"), (b"nothing of it", r"tokenizer\.model")],
)
def test_a_missing_and_a_broken_tokenizer_are_refused(content, said, tmp_path):
    if content:
        (tmp_path / FILE).write_bytes(content)
    with pytest.raises(RelposError, match=said):
        Tokenizer.load(tmp_path)


def test_a_small_stream_is_taken_whole():
    assert reservoir(iter("abc"), 10) == list("abc")


def test_a_sample_is_drawn_evenly():
    drawn = [int(item) for item in reservoir(map(str, range(100_000)), 5_000)]
    assert len(set(drawn)) == 5_000
    assert 48_000 < sum(drawn) / len(drawn) < 52_000
