"""What a word is, for everything that moves, counts or hides whole words.

A text is cut into words by white space, and each punctuation mark is a word by itself; a word is
the tuple of its pieces. The boundaries are read off the pieces, because a store holds no text: a
piece that begins with SentencePiece's `▁` begins a word, a piece that begins with a punctuation
mark begins one too (unless a lone `▁` stands before it, which then belongs to it), and so does
whatever follows a piece that ends with one. A piece is never cut: one that holds several marks
(`...`) is one word. A tokenizer whose pieces do not tell is refused.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from relpos.data.tokenizer import SPACE, Bools, Ids, Tokenizer
from relpos.errors import RelposError

Word = tuple[int, ...]
Pieces = npt.NDArray[np.integer]


def is_punctuation(character: str) -> bool:
    """Unicode's categories P*, and the symbols of ASCII (`$+<=>^|~` and the backquote), as BERT's
    own cutting into words has it."""
    kind = unicodedata.category(character)[0]
    return kind == "P" or (kind == "S" and character.isascii())


class Words:
    """The word boundaries of texts under one tokenizer.

    A special id ([CLS], [MASK], …) and `<unk>` are no punctuation: `<unk>` inside a word belongs to
    it.

    Raises:
        RelposError: words of a text of the tokenizer's own pieces would begin elsewhere than its
            pre-tokenizer has them begin.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.marks = tokenizer.marks
        pieces = [tokenizer.word_piece(number) for number in range(tokenizer.size)]
        texts = [piece.strip(SPACE) for piece in pieces]
        self._mark_first = _bools(any(map(is_punctuation, text[:1])) for text in texts)
        self._mark_last = _bools(any(map(is_punctuation, text[-1:])) for text in texts)
        self._alone = _bools(piece == SPACE for piece in pieces)
        self._spaced = _bools(piece.startswith(SPACE) for piece in pieces)
        self._closing = np.zeros_like(self._alone)
        if tokenizer.marks_ends:
            self._mark_last |= _bools(piece.endswith(SPACE) for piece in pieces)
            self._closing, self._alone, self._spaced = self._alone, self._closing, self._closing
        sample, words = tokenizer.sample()
        if (
            any(SPACE in text for text in texts)
            or len(self.split(tokenizer.encode([sample])[0])) != words
        ):
            raise RelposError(
                f"tokenizer {tokenizer.path}: its pieces do not tell where words "
                f"begin, and words are asked for here"
            )

    def begins(self, ids: Pieces) -> Bools:
        """ids (…, n) of texts without special ids → (…, n): whether each piece begins a word. The
        first one does."""
        before = ids[..., :-1]
        piece = ids[..., 1:]
        inner = (
            self._spaced[piece]
            | (self._mark_first[piece] & ~self._alone[before])
            | self._mark_last[before]
        )
        first = np.ones_like(ids[..., :1], dtype=bool)
        return np.concatenate([first, inner & ~self._closing[piece]], -1)

    def numbers(self, ids: Pieces) -> Ids:
        """ids (…, n) → (…, n): which word each piece belongs to, counted from 0."""
        return self.begins(ids).cumsum(-1, dtype=np.int64) - 1

    def split(self, ids: Sequence[int] | Pieces) -> list[Word]:
        """The words of one text (n,), in order."""
        array = np.asarray(ids, np.int64)
        parts = np.split(array, np.flatnonzero(self.begins(array))[1:])
        return [tuple(part.tolist()) for part in parts if len(part)]

    def same(self, first: Pieces, second: Pieces) -> bool:
        """Whether two texts hold the same words: equal multisets."""
        return Counter(self.split(first)) == Counter(self.split(second))


def _bools(values: Iterable[bool]) -> Bools:
    return np.fromiter(values, bool)
