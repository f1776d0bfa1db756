"""The held-out share is a share of the text: exact to a few sentences, whatever sizes the documents
have, and drawn by content alone."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relpos.data.heldout import FEWEST, ends
from relpos.errors import RelposError

TOKENS = 9  # of a sentence


def held(
    counts: Sequence[int],
    share: float,
    hashes: Sequence[int] | None = None,
    lengths: Sequence[int] | None = None,
) -> np.ndarray:
    """Sentences at the ends of documents of so many sentences."""
    documents = np.cumsum([0, *counts])
    sentences = np.cumsum([0, *(lengths or [TOKENS] * documents[-1])])
    drawn = np.random.default_rng(0).integers(0, 2**64, len(counts), np.uint64)
    return ends(
        drawn if hashes is None else np.asarray(hashes, np.uint64), documents, sentences, share
    )


@pytest.mark.parametrize(
    "counts",
    [
        [8000, 1000],
        [1000, 8000],
        [500, 9000, 200, 3000, 40, 7000],
        [90, 110] * 60,
        [7] * 5000,
        [12_000],
    ],
)
@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
def test_the_held_out_share_is_exact_to_a_few_sentences(counts, share):
    expected = share * sum(counts)
    assert held(counts, share).sum() == pytest.approx(
        expected, abs=len(counts) if len(counts) < 7 else FEWEST + 1
    )


def test_a_large_document_gives_its_end_and_small_ones_are_taken_whole():
    counts = [8000, *[10] * 200]
    of_large, *of_small = held(counts, 0.02)
    assert of_large == 160
    assert set(of_small) == {0, 10}
    assert sum(of_small) == 40


def test_the_share_counts_tokens_and_not_sentences():
    lengths = [1] * 500 + [19] * 500
    (cut,) = held([1000], 0.1, lengths=lengths)
    assert sum(lengths[-cut:]) == pytest.approx(0.1 * sum(lengths), rel=0.04)


def test_copies_are_held_out_alike():
    assert len(set(held([500, 3000, 3000, 70], 0.01, [9, 5, 5, 3])[1:3])) == 1
    heldout = held([10] * 40, 0.2, [*range(1, 21)] * 2)
    assert (heldout[:20] == heldout[20:]).all()


@settings(max_examples=200, deadline=None)
@given(
    counts=st.lists(st.integers(1, 60), min_size=2, max_size=30),
    share=st.floats(0.001, 0.999),
    hashes=st.lists(st.integers(0, 9), min_size=30, max_size=30),
)
def test_some_text_is_held_out_and_never_all(counts, share, hashes):
    heldout = held(counts, share, hashes[: len(counts)])
    assert 0 < heldout.sum() < sum(counts)
    assert ((heldout >= 0) & (heldout <= counts)).all()
    # With one sentence, a side of a cut would have no pair.
    cut = (heldout > 0) & (heldout < counts)
    # the pairs of sentences are those of the whole document
    assert not ((np.asarray(counts) - heldout)[cut] % 2).any()
    assert (heldout[cut] >= FEWEST).all()
    assert ((np.asarray(counts) - heldout)[cut] >= FEWEST).all()


def test_one_document_of_three_sentences_is_too_few():
    with pytest.raises(RelposError, match="the corpus has 3 sentences in one document"):
        held([3], 0.1)
