"""The tokenizer: ids, case folding, sampling."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from relpos.data.documents import UNKNOWN, Document
from relpos.data.published_tokenizer import load_tokenizer
from relpos.data.tokenizer import FILE, Tokenizer, reservoir, train_tokenizer
from relpos.errors import RelposError

TEXT = [
    f"The {a} dog sees a {b} cat near the {c} house ."
    for a in ["old", "new", "big"]
    for b in ["red", "sad"]
    for c in ["tall", "low"]
]


def trained(
    folder: Path, vocabulary: int = 60, sample: int = 1000, text: Sequence[str] = TEXT * 5
) -> Tokenizer:
    train_tokenizer([Document("a", iter(text))], folder, vocabulary, sample, 1)
    return load_tokenizer(folder)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return trained(tmp_path_factory.mktemp("tokenizer"))


def test_special_ids_come_first(tokenizer):
    pieces = [tokenizer.piece(i) for i in range(5)]
    assert pieces == ["[PAD]", "<unk>", "[CLS]", "[SEP]", "[MASK]"]


def test_case_is_folded(tokenizer):
    upper, lower = tokenizer.encode(["THE OLD DOG", "the old dog"])
    assert upper.tolist() == lower.tolist()


def test_text_comes_back_folded(tokenizer):
    assert tokenizer.decode(tokenizer.encode(["The big dog"])[0]) == "the big dog"


def test_special_names_in_a_text_are_text(tokenizer):
    assert not {0, 2, 3, 4} & set(tokenizer.encode(["[MASK] [CLS] [SEP] [PAD]"])[0].tolist())


def test_wikitexts_unknown_word_is_the_unknown_id(tokenizer):
    assert tokenizer.encode([f"old {UNKNOWN} dog"])[0].tolist().count(tokenizer.unk) == 1


def test_the_size_counts_every_id_and_a_small_text_yields_fewer_pieces(tmp_path):
    assert trained(tmp_path, 27).size == 27
    assert 27 < trained(tmp_path, 30_004).size < 30_004


def test_training_is_repeatable(tmp_path):
    for name in "ab":
        trained(tmp_path / name, sample=20)
    assert (tmp_path / "a" / FILE).read_bytes() == (tmp_path / "b" / FILE).read_bytes()


def test_a_tokenizer_of_no_text_is_refused(tmp_path):
    with pytest.raises(RelposError, match="no sentences"):
        trained(tmp_path, text=[])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("vocabulary", [1, 6])
def test_a_vocabulary_below_the_characters_is_refused_with_the_least_that_will_do(
    tmp_path, vocabulary
):
    message = rf"^vocabulary={vocabulary}: too small .* the 5 special tokens make (\d+) ids: vocabulary=\1 or more$"
    with pytest.raises(RelposError, match=message):
        trained(tmp_path, vocabulary)


def test_sentences_too_long_to_train_on_are_named_with_the_way_out(tmp_path):
    message = r"^data: all sentences are longer than 4,192 bytes.*on a line of its own$"
    with pytest.raises(RelposError, match=message):
        trained(tmp_path, text=["words without an end " * 1000])


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, r"tokenizer\.model: no such file"), (b"nothing of it", r"tokenizer\.model")],
)
def test_a_missing_and_a_broken_tokenizer_are_refused(content, message, tmp_path):
    if content:
        (tmp_path / FILE).write_bytes(content)
    with pytest.raises(RelposError, match=message):
        load_tokenizer(tmp_path)


def test_a_small_stream_is_taken_whole():
    assert reservoir(iter("abc"), 10) == list("abc")


def test_a_sample_is_drawn_evenly():
    drawn = [int(item) for item in reservoir(map(str, range(100_000)), 5_000)]
    assert len(set(drawn)) == 5_000
    assert 48_000 < sum(drawn) / len(drawn) < 52_000
