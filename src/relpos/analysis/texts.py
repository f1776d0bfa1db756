"""Texts of one length, masked for a network, with their words in order or in random order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from relpos.counter import counter_hash
from relpos.data.marks import Marks
from relpos.data.objective import mask
from relpos.data.tokenizer import Tokenizer
from relpos.data.words import Words
from relpos.model.heads import IGNORED
from relpos.model.shape import Ids

BATCH = 16  # texts in a forward pass
_SHUFFLE = 0x6F72646572


@dataclass(frozen=True)
class Texts:
    """Texts of one length for masked-language modelling.

    Args:
        ids: (texts, n), special tokens left out.
        tokenizer: the one that made the ids.
    """

    ids: Ids
    tokenizer: Tokenizer

    @cached_property
    def words(self) -> Words:
        """The word boundaries."""
        return Words(self.tokenizer)

    @property
    def with_edges(self) -> Tensor:
        """(texts, n + 2), with [CLS] and [SEP]."""
        return with_edges(self.ids, self.tokenizer.marks)

    def predicted(self, seed: int) -> Tensor:
        """(texts,) how many tokens of each are predicted under the masks of this seed."""
        return torch.cat([(labels != IGNORED).sum(1) for _, labels in self.batches(seed)])

    def batches(self, seed: int, shuffled: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
        """(input ids, labels), both (b, n + 2), under BERT's masks. `shuffled` puts the words of each text into random order; the
        same tokens are predicted."""
        for start in range(0, len(self.ids), BATCH):
            ids = self.ids[start : start + BATCH]
            row = torch.arange(start, start + len(ids))
            # Before the words are moved: the same tokens are masked in either order.
            lengths = torch.full_like(row, ids.shape[1])
            shown, labels = mask(ids, lengths, row, seed, self.tokenizer.size, marks=self.tokenizer.marks)
            if shuffled:
                order = self._order(ids, row[:, None])
                shown, labels = shown.gather(1, order), labels.gather(1, order)
            yield with_edges(shown, self.tokenizer.marks), nn.functional.pad(labels, (1, 1), value=IGNORED)

    def _order(self, ids: Tensor, row: Tensor) -> Tensor:
        """(b, n): where each token comes from; the pieces of a word stay together."""
        word = torch.from_numpy(self.words.numbers(ids.numpy()))
        draw = (counter_hash(_SHUFFLE, row, word) >> 11).numpy()
        place = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        return torch.from_numpy(np.lexsort((place, word.numpy(), draw), axis=1))


def with_edges(ids: Ids, marks: Marks) -> Tensor:
    """ids (texts, n) → (texts, n + 2), with [CLS] and [SEP]."""
    edged = nn.functional.pad(ids, (1, 1), value=marks.sep)
    edged[:, 0] = marks.cls
    return edged
