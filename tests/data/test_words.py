"""What a word is."""

import numpy as np
import pytest

from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words, is_punctuation


def spelled(tokenizer: Tokenizer, text: str) -> list[str]:
    words = Words(tokenizer).split(tokenizer.encode([text])[0])
    return ["".join(map(tokenizer.piece, word)).replace("▁", "") for word in words]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the dogs chase cats.", ["the", "dogs", "chase", "cats", "."]),
        ("the dogs chase cats .", ["the", "dogs", "chase", "cats", "."]),
        ("the dogtor, the cats?", ["the", "dogtor", ",", "the", "cats", "?"]),
        ("dogs,cats.the", ["dogs", ",", "cats", ".", "the"]),
        ("the dog", ["the", "dog"]),
    ],
)
def test_words_end_at_white_space_and_a_punctuation_mark_is_one_by_itself(tokenizer, text, words):
    assert spelled(tokenizer, text) == words


def test_an_unknown_character_belongs_to_its_word(tokenizer):
    assert spelled(tokenizer, "the d中g sleeps") == ["the", "d<unk>g", "sleeps"]


def test_the_pieces_of_all_words_are_the_pieces_of_the_text(tokenizer):
    ids = tokenizer.encode(["a smallish zebra, they say, is not a horse."])[0]
    assert [piece for word in Words(tokenizer).split(ids) for piece in word] == ids.tolist()


def test_boundaries_of_a_batch_are_those_of_its_rows(tokenizer):
    words, rows = Words(tokenizer), tokenizer.encode(["the dog, a cat.", "zebras are wild?"])
    n = min(map(len, rows))
    batch = np.stack([row[:n] for row in rows])
    assert np.array_equal(words.begins(batch), np.stack([words.begins(row) for row in batch]))


def test_the_same_words_in_another_order_are_the_same_and_other_words_are_not(tokenizer):
    first, other, third = tokenizer.encode(
        ["the dogs chase a cat.", "a cat chase the dogs.", "the dogs chase the cat."]
    )
    assert Words(tokenizer).same(first, other)
    assert not Words(tokenizer).same(first, third)


def test_texts_of_equal_pieces_but_other_words_are_not_the_same(tokenizer):
    begins, inside, other = map(tokenizer.processor.piece_to_id, ("▁the", "s", "▁a"))
    assert tokenizer.unk not in (begins, inside)
    first, second = np.array([[begins, inside, other], [begins, other, inside]])
    assert not Words(tokenizer).same(first, second)


@pytest.mark.parametrize(
    ("character", "expected"),
    [(".", True), ("“", True), ("$", True), ("a", False), ("3", False), ("▁", False)],
)
def test_symbols_of_ascii_count_as_punctuation(character, expected):
    assert is_punctuation(character) is expected
