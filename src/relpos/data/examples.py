"""Sentences in a store -> training examples, formed when they are read. Nothing crosses documents.

pair       sentences 1+2, 3+4, … of a document (the last of an odd number is left out): [CLS] a [SEP] b [SEP]
document   a document's text, sentence after sentence, in windows of `length` - 2 tokens: [CLS] text [SEP]

Differs from the authors' code: their pairs cross the ends of documents, and cutting to `length`
loses the last [SEP]. The index holds one number for each document: example i is found by bisection,
so 31 million pairs need no table of pairs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from relpos.data.passes import MULTIPLE
from relpos.data.tokenizer import OURS, Marks

Ints = npt.NDArray[np.int64]
Spans = tuple[Ints, Ints, Ints]
"""(start, middle, end) of each example, see `ExampleSet._spans`."""


@dataclass(eq=False)
class ExampleSet(ABC):
    """Examples made of some documents of a store.

    Args:
        ids: (tokens,) of the store.
        sentences: (sentences + 1,) where each sentence begins in `ids`.
        first: (documents,) the first sentence of each document.
        last: (documents,) the sentence after its last one.
        length: tokens of an example, at most.
        limit: so many examples, spread evenly over all; None: all.
        marks: the ids of the special tokens.
    """

    ids: npt.NDArray[np.integer]
    sentences: Ints
    first: Ints
    last: Ints
    length: int
    limit: int | None = None
    marks: Marks = OURS

    def __post_init__(self) -> None:
        # examples before each document
        self.before = np.concatenate([[0], np.cumsum(self._counts())])
        self.total = int(self.before[-1])
        self.count = min(self.total, self.limit or self.total)

    def __len__(self) -> int:
        return self.count

    @abstractmethod
    def _counts(self) -> Ints:
        """Examples of every document."""

    @abstractmethod
    def _spans(self, indices: Ints) -> Spans:
        """(start, middle, end) in `ids` of each example: its first token, the first of its second
        part, and the end. An example with a single part has middle = end."""

    def _document(self, indices: Ints) -> tuple[Ints, Ints]:
        """The document of each example, and the example's number in it; `limit` is taken into
        account."""
        if self.count < self.total:
            indices = indices * self.total // self.count
        # `right`: a document without an example has the same entry as the next document, and must
        # be passed over.
        document = np.searchsorted(self.before, indices, side="right") - 1
        return document, indices - self.before[document]

    def documents(self) -> Ints:
        """(examples,) the document of each example, as a number: examples of one document are not
        independent."""
        return self._document(np.arange(len(self)))[0]

    def lengths(self, indices: Tensor) -> Tensor:
        """Tokens of each example, special ones included, before it is padded: (b,) -> (b,)."""
        return torch.from_numpy(self._lengths(*self._spans(indices.numpy())))

    def _lengths(self, start: Ints, middle: Ints, end: Ints) -> Ints:
        return np.minimum(end - start + 2 + (middle < end), self.length)

    def batch(self, indices: Tensor, n: int | None = None) -> tuple[Tensor, Tensor]:
        """(b,) -> ids (b, n) and lengths (b,); n None: the longest, as a multiple of 8 but not
        beyond `length`."""
        start, middle, end = (part[:, None] for part in self._spans(indices.numpy()))  # (b, 1)
        lengths = self._lengths(start, middle, end)
        # A multiple of 8 beyond `length` might not fit into a network's table of positions.
        n = n or min(-(-int(lengths.max()) // MULTIPLE) * MULTIPLE, self.length)
        place = np.arange(n)
        cut = middle - start + 1  # the place of the first [SEP]
        token = start + place - 1 - (place > cut)
        # At special tokens and padding `token` may lie outside the store; these ids are replaced
        # below.
        ids = self.ids[np.clip(token, 0, len(self.ids) - 1)].astype(np.int64)
        ids = np.where((place == cut) | (place == lengths - 1), self.marks.sep, ids)
        ids = np.where(place == 0, self.marks.cls, ids)
        ids = np.where(place < lengths, ids, self.marks.pad)
        return torch.from_numpy(ids), torch.from_numpy(lengths[:, 0])


class PairExamples(ExampleSet):
    """[CLS] a [SEP] b [SEP]"""

    def _counts(self) -> Ints:
        return (self.last - self.first) // 2

    def _spans(self, indices: Ints) -> Spans:
        document, number = self._document(indices)
        a = self.first[document] + 2 * number
        return self.sentences[a], self.sentences[a + 1], self.sentences[a + 2]


class WindowExamples(ExampleSet):
    """[CLS] text [SEP], `length` tokens long but for a document's last."""

    def _counts(self) -> Ints:
        tokens = self.sentences[self.last] - self.sentences[self.first]
        return -(-tokens // (self.length - 2))

    def _spans(self, indices: Ints) -> Spans:
        document, number = self._document(indices)
        start = self.sentences[self.first[document]] + number * (self.length - 2)
        end = np.minimum(start + self.length - 2, self.sentences[self.last[document]])
        return start, end, end
