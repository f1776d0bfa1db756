"""Encoding: special tokens, segment types, longest-first truncation."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relpos.data.glue import Rows
from relpos.data.task_batches import cut, encode
from relpos.errors import RelposError


class Words:
    """A tokenizer: a word that is a number is its own id."""

    pad, cls, sep = 0, 2, 3
    separators = 1

    def encode(self, sentences: list[str]) -> list[list[int]]:
        return [[int(word) for word in sentence.split()] for sentence in sentences]


def test_pair_has_two_separators_and_two_types():
    encoded = encode(Rows(["11 12"], ["21"], [1]), Words())
    assert encoded.ids[0].tolist() == [2, 11, 12, 3, 21, 3]
    assert encoded.seconds == [4]


def test_single_sentence_has_one_type():
    encoded = encode(Rows(["11 12"], None, None), Words())
    assert encoded.ids[0].tolist() == [2, 11, 12, 3]
    assert encoded.seconds == [4]
    assert encoded.labels is None


def test_classes_are_integers_and_scores_are_floats():
    classes = encode(Rows(["11", "12"], None, [1, 0]), Words()).labels
    scores = encode(Rows(["11", "12"], None, [1.0, 0.5]), Words()).labels
    assert classes is not None
    assert scores is not None
    assert (classes.dtype, scores.dtype) == (torch.int64, torch.float32)


def test_cut_rows_keep_their_separators():
    long = " ".join(str(10 + i) for i in range(200))
    for second in (None, [long], ["5"]):
        ids = encode(Rows([long], second, None), Words(), length=16).ids[0].tolist()
        assert len(ids) == 16
        assert (ids[0], ids[-1], ids.count(3)) == (2, 3, 1 if second is None else 2)


def test_empty_sentences_are_encoded():
    assert encode(Rows([""], [""], None), Words()).ids[0].tolist() == [2, 3, 3]


def test_too_small_a_length_is_refused():
    with pytest.raises(RelposError, match="length=4"):
        encode(Rows(["1"], None, None), Words(), length=4)


class TwoBetween(Words):
    separators = 2


@pytest.mark.parametrize(("tokenizer", "least"), [(Words(), 5), (TwoBetween(), 6)])
def test_the_least_length_has_a_token_of_each_text(tokenizer, least):
    pair = Rows(["11 12"], ["21 22"], None)
    assert {11, 21} < set(encode(pair, tokenizer, least).ids[0].tolist())
    with pytest.raises(
        RelposError, match=f"length={least - 1}: a pair needs at least {least} positions"
    ):
        encode(pair, tokenizer, least - 1)
    assert len(encode(Rows(["11 12 13 14"], None, None), tokenizer, 5).ids[0]) == 5


@given(a=st.integers(0, 60), b=st.integers(0, 60), room=st.integers(2, 40))
def test_cut_takes_one_token_at_a_time_off_the_longer(a, b, room):
    length_a, length_b = a, b
    while length_a + length_b > room:
        if length_a > length_b:
            length_a -= 1
        else:
            length_b -= 1
    assert cut(a, b, room) == (length_a, length_b)
