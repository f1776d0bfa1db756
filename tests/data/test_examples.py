"""Examples are formed from offsets: nothing crosses documents, the last [SEP] is kept."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relpos.data.examples import ExampleSet, PairExamples, WindowExamples
from relpos.data.tokenizer import CLS, PAD, SEP

Documents = list[list[list[int]]]  # documents of sentences of ids


def examples(
    kind: type[ExampleSet], documents: Documents, length: int, limit: int | None = None
) -> ExampleSet:
    sentences = [sentence for document in documents for sentence in document]
    ids = np.asarray([token for sentence in sentences for token in sentence], np.uint16)
    offsets = np.cumsum([0, *map(len, sentences)]).astype(np.int64)
    bounds = np.cumsum([0, *map(len, documents)]).astype(np.int64)
    return kind(ids, offsets, bounds[:-1], bounds[1:], length, limit)


def rows(example_set: ExampleSet) -> list[list[int]]:
    ids, lengths = example_set.batch(torch.arange(len(example_set)))
    assert lengths.tolist() == example_set.lengths(torch.arange(len(example_set))).tolist()
    return [row[:n].tolist() for row, n in zip(ids, lengths, strict=True)]


def expected_pairs(documents: Documents, length: int) -> list[list[int]]:
    """The definition, in plain Python."""
    pairs = []
    for document in documents:
        for a, b in zip(document[::2], document[1::2], strict=False):
            row = [CLS, *a, SEP, *b, SEP]
            pairs.append(row if len(row) <= length else [*row[: length - 1], SEP])
    return pairs


def expected_windows(documents: Documents, length: int) -> list[list[int]]:
    windows = []
    for document in documents:
        text = [token for sentence in document for token in sentence]
        windows += [[CLS, *text[i : i + length - 2], SEP] for i in range(0, len(text), length - 2)]
    return windows


sentence = st.lists(st.integers(5, 999), min_size=1, max_size=20)
corpora = st.lists(st.lists(sentence, min_size=1, max_size=6), min_size=1, max_size=5)


@settings(max_examples=30, deadline=None)
@given(documents=corpora.filter(lambda d: any(len(x) > 1 for x in d)), length=st.integers(8, 40))
def test_pairs_are_those_of_the_definition(documents, length):
    assert rows(examples(PairExamples, documents, length)) == expected_pairs(documents, length)


@settings(max_examples=30, deadline=None)
@given(documents=corpora, length=st.integers(8, 40))
def test_windows_are_those_of_the_definition(documents, length):
    assert rows(examples(WindowExamples, documents, length)) == expected_windows(documents, length)


def test_batches_are_padded_to_a_multiple_of_eight():
    ids, _ = examples(PairExamples, [[[7] * 4, [8] * 5]], 128).batch(torch.tensor([0]))
    assert ids.shape == (1, 16)
    assert ids[0, 12:].tolist() == [PAD] * 4


def test_batches_are_never_wider_than_length():
    ids, _ = examples(PairExamples, [[[7] * 40, [8] * 50]], 20).batch(torch.tensor([0]))
    assert ids.shape == (1, 20)


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_a_limit_is_spread_over_the_text(limit):
    documents = [[[10 + i], [100 + i]] for i in range(21)]
    firsts = [row[1] - 10 for row in rows(examples(PairExamples, documents, 16, limit))]
    assert firsts == [i * 21 // limit for i in range(limit)]


def test_a_limit_beyond_the_text_takes_every_example():
    assert len(examples(PairExamples, [[[1], [2]]], 16, 100)) == 1
