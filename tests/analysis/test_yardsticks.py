"""Answers of several texts: ties, texts of which a part is given, and what is left of a
continuation."""

import pytest

from measures.test_gaps import network
from relpos.data.pairs import PairItem
from relpos.errors import RelposError
from relpos.measures.kinds.pairs import minimal_pairs


def test_several_texts_that_are_tied_share_a_right_answer(tokenizer):
    model = network(tokenizer)
    orders = ("the cat sees the dog .", "the dog sees the cat .", "dog the sees cat the .")
    worst = "the the the the the the"
    assert minimal_pairs(model, tokenizer, [PairItem("a", orders, "")]).right.tolist() == [1 / 3]
    scores = minimal_pairs(
        model,
        tokenizer,
        [
            PairItem("a", orders, ""),
            PairItem("b", (worst, *orders), ""),
            PairItem("c", orders[:2], ""),
        ],
    )
    same = scores.summary()["same_words"]
    assert scores.answers()["same_words"] == {"a": "3", "c": "t"}
    assert same["accuracy"] == pytest.approx(100 * (1 / 3 + 1 / 2) / 2)
    assert same["ties_right"] == 100.0
    assert same["interval"] == [pytest.approx(same["accuracy"])] * 2


def test_a_token_that_reaches_over_the_end_of_the_prefix_is_scored(tokenizer):
    """`cats` is one piece or another cut than `cat` and `s`: either way nothing of what follows is
    left out."""
    model = network(tokenizer, "fixed")
    item = PairItem("a", ("the cats", "the cat ."), "", ("the cat", "the cat"))
    assert minimal_pairs(model, tokenizer, [item]).right.tolist() in ([0.0], [1.0])


def test_a_continuation_of_which_nothing_is_left_is_refused(tokenizer):
    model = network(tokenizer, "fixed")
    item = PairItem("a", ("the cat ", "the cat ."), "own.jsonl line 3", ("the cat", "the cat"))
    with pytest.raises(
        RelposError, match=r"own\.jsonl line 3: the tokenizer leaves nothing of a sentence"
    ):
        minimal_pairs(model, tokenizer, [item])
