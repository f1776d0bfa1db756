"""Words permuted within windows, n-grams permuted within sentences."""

from collections import Counter
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pytest
import torch

from relpos.counter import fold
from relpos.data import shuffle
from relpos.data.objective import IGNORED
from relpos.data.shuffle import (
    WINDOWS,
    mirrored,
    ngrams_permuted,
    permuted,
    windows_of_text,
)
from relpos.data.steps import MicroBatch, heldout_batches
from relpos.data.store import Store
from relpos.data.tokenizer import CLS, MASK, PAD, SEP, Tokenizer
from relpos.data.words import Word, Words

LENGTH = 24  # some examples are cut


@pytest.fixture(scope="module")
def words(tokenizer: Tokenizer) -> Words:
    return Words(tokenizer)


@pytest.fixture(scope="module")
def batches(store: Store) -> list[MicroBatch]:
    examples = store.examples("heldout", "pair", LENGTH, 100)
    return list(heldout_batches(examples, 21, store.vocabulary))


def unmasked(batch: MicroBatch) -> torch.Tensor:
    return torch.where(batch.labels == IGNORED, batch.input_ids, batch.labels)


def sentences(ids: list[int], words: Words) -> list[list[Word]]:
    """The words of each sentence of an example."""
    parts: list[list[int]] = [[]]
    for piece in ids[1:]:
        if piece == PAD:
            break
        parts[-1].append(piece) if piece != SEP else parts.append([])
    return [words.split(sentence) for sentence in parts[:-1]]


@pytest.mark.parametrize("window", WINDOWS)
def test_each_window_holds_the_same_words(batches, words, window):
    """Windows are counted from the start of each sentence."""
    changed = 0
    for batch in batches:
        after = unmasked(permuted(batch, words, window)).tolist()
        for before_row, after_row in zip(unmasked(batch).tolist(), after, strict=True):
            changed += before_row != after_row
            for sentence in sentences(before_row, words):
                place = _start(before_row, sentence)
                for first in range(0, len(sentence), window or len(sentence)):
                    group = sentence[first : first + (window or len(sentence))]
                    pieces = sum(map(len, group))
                    assert _whole_words(after_row[place : place + pieces], group) == Counter(group)
                    place += pieces
    assert changed > 50


def test_a_mirrored_row_is_its_tokens_from_the_last_to_the_first(batches):
    padded = 0
    for batch in batches:
        after = mirrored(batch)
        assert after.attention_mask is batch.attention_mask
        for name in ("input_ids", "labels"):
            rows = zip(
                getattr(batch, name), getattr(after, name), batch.attention_mask, strict=True
            )
            for before_row, after_row, real in rows:
                n = int(real.sum())
                assert torch.equal(after_row[:n], before_row[:n].flip(0))
                assert torch.equal(after_row[n:], before_row[n:])
                padded += n < len(real)
    assert padded > 50


def test_special_tokens_and_padding_stay_in_place(batches, words):
    for batch in batches:
        before, after = unmasked(batch), unmasked(permuted(batch, words, None))
        for fixed in (CLS, SEP, PAD):
            assert torch.equal(before == fixed, after == fixed)


def _start(row: list[int], sentence: list[Word]) -> int:
    pieces = list(chain.from_iterable(sentence))
    places = (at for at in range(len(row)) if row[at - 1] in (CLS, SEP))
    return next(at for at in places if row[at : at + len(pieces)] == pieces)


def _whole_words(pieces: list[int], group: list[Word]) -> Counter[Word]:
    """`pieces` cut into words of `group`, which they must be."""
    counts: Counter[Word] = Counter()
    while pieces:
        ordered = sorted(group, key=len, reverse=True)
        word = next(word for word in ordered if tuple(pieces[: len(word)]) == word)
        counts[word] += 1
        pieces = pieces[len(word) :]
    return counts


def test_masks_travel_with_their_pieces(batches, words):
    for batch in batches:
        after = permuted(batch, words, None)
        for row in range(len(batch.labels)):
            before_pairs, after_pairs = (
                sorted(zip(part.input_ids[row].tolist(), part.labels[row].tolist(), strict=True))
                for part in (batch, after)
            )
            assert before_pairs == after_pairs


def test_the_permutation_does_not_depend_on_the_masks(batches, words):
    """A random replacement may look like the beginning of a word, or like [SEP]."""
    batch = batches[0]
    text = batch.attention_mask & (unmasked(batch) > MASK)
    everything = replace(
        batch,
        input_ids=batch.input_ids.masked_fill(text, SEP),
        labels=torch.where(text, unmasked(batch), batch.labels),
    )
    assert torch.equal(
        unmasked(permuted(batch, words, 3)),
        unmasked(permuted(everything, words, 3)),
    )


def test_a_permutation_depends_on_the_example_and_not_on_its_batch(store, words):
    examples = store.examples("heldout", "pair", LENGTH, 100)

    def by_number(microbatch: int) -> dict[int, list[int]]:
        pieces = {}
        for batch in heldout_batches(examples, microbatch, store.vocabulary):
            rows = permuted(batch, words, 4).input_ids.tolist()
            for number, row in zip(batch.keys.tolist(), rows, strict=True):
                pieces[number] = [piece for piece in row if piece]
        return pieces

    assert by_number(2) == by_number(41)


def test_windows_of_text_are_whole(store):
    texts = windows_of_text(store.examples("heldout", "document", 34), 10)
    assert texts.shape == (10, 32)
    assert not torch.isin(texts, torch.tensor([CLS, SEP, PAD])).any()


def in_loops(sentence: list[Word], number: int, n: int) -> list[int]:
    """One sentence with its n-grams in random order, n-gram by n-gram."""
    size = n - fold(shuffle._NGRAMS, n, number) % n  # of the first
    cuts = [0, *range(size, len(sentence), n), len(sentence)]
    ngrams = [sentence[a:b] for a, b in pairwise(cuts)]
    drawn = sorted(range(len(ngrams)), key=lambda place: fold(shuffle._NGRAMS, n, number, place))
    return [piece for place in drawn for word in ngrams[place] for piece in word]


@pytest.mark.parametrize("n", [1, 2, 3, 100])
def test_n_grams_are_permuted_and_stay_whole(store, words, n):
    starts = store.sentences[:2001]
    ids = np.asarray(store.ids[: starts[-1]], np.int32)
    after = np.split(ngrams_permuted(np.diff(starts), ids, 5, words, n), starts[1:-1])
    before = np.split(ids, starts[1:-1])
    for number, (before_row, after_row) in enumerate(zip(before, after, strict=True)):
        assert after_row.tolist() == in_loops(words.split(before_row), 5 + number, n)
    assert n == 100 or not np.array_equal(np.concatenate(before), np.concatenate(after))


def test_a_sentence_is_permuted_alike_in_any_portion_of_the_text(store, words):
    starts = store.sentences[:301]
    lengths, ids, cut = np.diff(starts), np.asarray(store.ids[: starts[-1]], np.int32), starts[7]
    parts = (
        ngrams_permuted(lengths[:7], ids[:cut], 0, words, 2),
        ngrams_permuted(lengths[7:], ids[cut:], 7, words, 2),
    )
    assert np.array_equal(np.concatenate(parts), ngrams_permuted(lengths, ids, 0, words, 2))
