"""Text in another order: held-out examples with the words of each sentence permuted within windows,
or with each row read from right to left; and sentences whose n-grams are permuted before any
training, for a store.

Examples are cut and masked first and permuted afterwards, so that the same tokens are predicted
with and without the permutation. Masks travel with their pieces. Where words are permuted, [CLS],
[SEP] and padding stay where they are, and the pieces of a word stay together. Words are read off
the ids before masking: a random replacement may look like the beginning of a word.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from relpos.counter import counter_hash
from relpos.data.examples import ExampleSet
from relpos.data.objective import IGNORED
from relpos.data.steps import MicroBatch
from relpos.data.tokenizer import Marks, TextIds
from relpos.data.words import Words

WINDOWS: tuple[int | None, ...] = (2, 3, 4, 8, None)
"""Words of a window; None: all words of the sentence."""
_SEED = 0x776F7264
_NGRAMS = 0x6E677261  # keeps the draws of `ngrams_permuted` apart


def permuted(batch: MicroBatch, words: Words, window: int | None) -> MicroBatch:
    """`batch` with the words of each sentence permuted within windows of `window` words, counted
    from the sentence's start.

    A permutation depends on the example's number, its sentence, the word's place and the window
    alone.

    Args:
        batch: masked examples, whose `keys` are their numbers; a sentence is what stands between
            [CLS] and [SEP] or between two [SEP].
        words: the boundaries, of the tokenizer that made the ids.
        window: None: all words.
    """
    assert batch.keys is not None
    ids = torch.where(batch.labels == IGNORED, batch.input_ids, batch.labels).numpy()
    real = batch.attention_mask.numpy()
    # A [SEP] that the masking drew stands in `input_ids` only, so these are the true ones.
    marks = words.marks
    fixed = ~real | (ids == marks.cls) | (ids == marks.sep) | (ids == marks.pad)
    # `roll` brings the last column round to the first one, where [CLS] stands and is fixed anyway.
    edges = fixed | np.roll(fixed, 1, 1)
    # every fixed token is a part by itself, and so is every sentence
    part = np.cumsum(edges, 1)
    word = np.cumsum(words.begins(ids) | edges, 1)
    first_word = np.maximum.accumulate(np.where(np.diff(part, axis=1, prepend=-1) > 0, word, 0), 1)
    inside = word - first_word  # the word's number in its sentence
    group = np.zeros_like(inside)
    if window:
        group = inside // window
    draw = counter_hash(
        _SEED,
        window or 0,
        batch.keys[:, None],
        torch.from_numpy(part),
        torch.from_numpy(inside),
    ).numpy()
    # The last key counts first, and equal pieces keep their order. The word stands behind the draw:
    # pieces of two words that drew the same number must not mix.
    return _moved(batch, torch.from_numpy(np.lexsort((word, draw, group, part), axis=1)))


def mirrored(batch: MicroBatch) -> MicroBatch:
    """`batch` with the real tokens of each row from the last to the first, [CLS] and [SEP] among
    them; padding stays at the right.

    The distance between any two tokens stays the same, also from a token to [CLS]: a network that
    sees nothing but distances predicts the same. With [CLS] and [SEP] left in their places it would
    not.
    """
    place = torch.arange(batch.input_ids.shape[1])
    lengths = batch.attention_mask.sum(1, keepdim=True)
    return _moved(batch, torch.where(place < lengths, lengths - 1 - place, place))


def _moved(batch: MicroBatch, source: Tensor) -> MicroBatch:
    """`batch` with each token, and what is to be predicted there, taken from the place `source` (b,
    n)."""
    return replace(
        batch,
        input_ids=batch.input_ids.gather(1, source),
        labels=batch.labels.gather(1, source),
    )


def ngrams_permuted(
    lengths: TextIds,
    ids: TextIds,
    first: int,
    words: Words,
    n: int,
) -> TextIds:
    """Sentences with their n-grams in random order, the words inside of an n-gram as they stood
    (Sinha et al. 2021, "Masked language modeling and the distributional hypothesis", §3).

    Differs from the paper: n-grams lie side by side, the first of 1 to n words, drawn evenly, so
    that any two neighbours share one with probability (n − 1)/n; theirs lie at random places with
    single words between them. A word may stay where it was.

    Args:
        lengths: (sentences,) tokens of each; none is empty.
        ids: (tokens,) the sentences one after the other, without special ids.
        first: the number of the first sentence in the text; a permutation depends on its sentence's
            number, on n and on the n-gram's place in the sentence alone.
        words: the boundaries, of the tokenizer that made the ids.
        n: words; 1: every order of the words is as likely as any other.
    """
    starts = np.cumsum(lengths) - lengths
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    begins = words.begins(ids)
    begins[starts] = True
    word = np.cumsum(begins)
    number = torch.from_numpy(first + sentence)
    # torch's % has the sign of n, so that a negative hash, too, gives a number from 0 to n − 1.
    skipped = (counter_hash(_NGRAMS, n, number) % n).numpy()
    ngram = (word - word[starts][sentence] + skipped) // n
    draw = counter_hash(_NGRAMS, n, number, torch.from_numpy(ngram)).numpy()
    return ids[np.lexsort((draw, sentence))]


def windows_of_text(examples: ExampleSet, count: int) -> Tensor:
    """(`count`, length − 2) ids of whole windows of text, spread evenly over the examples; all
    windows where there are fewer.

    Args:
        examples: of packing `document`.
        count: windows.
    """
    lengths = examples.lengths(torch.arange(len(examples)))
    (whole,) = torch.where(lengths == examples.length)
    count = min(count, len(whole))
    if not count:
        return torch.zeros(0, examples.length - 2, dtype=torch.int64)
    return examples.batch(whole[torch.arange(count) * len(whole) // count])[0][:, 1:-1]


def with_edges(ids: Tensor, marks: Marks) -> Tensor:
    """ids (texts, n) → (texts, n + 2), with [CLS] and [SEP]."""
    edged = nn.functional.pad(ids, (1, 1), value=marks.sep)
    edged[:, 0] = marks.cls
    return edged
