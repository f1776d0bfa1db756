"""The same text under the same masks, whatever the length of the windows."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from relpos.data.objective import IGNORED
from relpos.data.tokenizer import CLS, OURS, SEP
from relpos.errors import RelposError
from relpos.measures.kinds.lengths import heldout_texts, heldout_windows


def made_store(lengths: list[int], heldout: list[int]) -> Any:
    """Documents of so many tokens, each in sentences of ten; ids count up from 5."""
    sentences, documents = [0], [0]
    for length in lengths:
        start = sentences[-1]
        sentences += [start + end for end in (*range(10, length, 10), length)]
        documents.append(len(sentences) - 1)
    return SimpleNamespace(
        ids=np.arange(5, 5 + sum(lengths), dtype=np.uint16),
        sentences=np.array(sentences),
        documents=np.array(documents),
        heldout=np.array(heldout, dtype=bool),
        vocabulary=30_000,
        marks=OURS,
    )


def predicted(texts: Any, length: int) -> list[int]:
    """The targets, in order."""
    return [
        int(x)
        for batch in heldout_windows(texts, length)
        for row in batch.labels
        for x in row[row != IGNORED]
    ]


def test_every_length_predicts_the_same_tokens():
    texts = heldout_texts(made_store([500, 300, 700], [1, 0, 1]), 66, 10_000)
    targets = predicted(texts, 66)
    assert len(targets) > 100
    assert all(predicted(texts, length) == targets for length in (8, 17, 34))


def test_a_window_is_whole_and_framed():
    texts = heldout_texts(made_store([200], [1]), 34, 10_000)
    for batch in heldout_windows(texts, 34):
        for ids, real in zip(batch.input_ids, batch.attention_mask, strict=True):
            end = int(real.sum()) - 1
            assert (int(ids[0]), int(ids[end])) == (CLS, SEP)
            assert end == 33
            assert not ids[end + 1 :].any()


def test_text_of_training_is_not_read_and_short_documents_are_left_out():
    store = made_store([100, 100, 20], [0, 1, 1])
    [(ids, labels)] = heldout_texts(store, 34, 10_000)
    text = torch.where(labels == IGNORED, ids, labels)
    assert text.tolist() == list(range(105, 105 + 96))  # three windows of 32


def test_the_text_asked_for_is_spread_over_documents():
    texts = heldout_texts(made_store([640] * 10, [1] * 10), 66, 640)
    assert sum(len(ids) for ids, _ in texts) == pytest.approx(640, abs=64)
    texts = heldout_texts(made_store([640] * 10, [1] * 10), 66, 1280)
    assert len(texts) == 2


def test_a_length_beyond_all_documents_is_refused():
    with pytest.raises(
        RelposError, match="lengths=128: the longest held-out document has 60 tokens"
    ):
        heldout_texts(made_store([60, 500], [1, 0]), 128, 1000)


def test_every_length_predicts_the_same_tokens_on_disk(store):
    texts = heldout_texts(store, 64, 2000)
    assert sum(len(ids) for ids, _ in texts) >= 1900
    assert predicted(texts, 64) == predicted(texts, 20)
