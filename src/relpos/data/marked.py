"""Text in which special tokens are written out, as in `the cat [MASK] on the mat`, as the input of a network and back."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError

Ids = npt.NDArray[np.int64]


def marked_ids(tokenizer: Tokenizer, text: str) -> Ids:
    """(n,) the ids of a text, with [CLS] before and [SEP] after it unless it has them already.

    Raises:
        RelposError: the text is empty but for [CLS], [SEP] and [PAD].
    """
    ids = tokenizer.encode_marked(text).tolist()
    if not set(ids) - {tokenizer.cls, tokenizer.sep, tokenizer.pad}:
        raise RelposError(f"text={text!r}: there is no token in it")
    before = [] if ids[0] == tokenizer.cls else [tokenizer.cls]
    after = [] if ids[-1] == tokenizer.sep else [tokenizer.sep]
    return np.array([*before, *ids, *after], np.int64)


def shown(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """The ids as text for a person: without the [CLS] in front and the [SEP] at the end."""
    ids = list(map(int, ids))
    first, last = int(ids[:1] == [tokenizer.cls]), len(ids) - (ids[-1:] == [tokenizer.sep])
    return tokenizer.decode_marked(ids[first:last])


def is_special(tokenizer: Tokenizer, ids: Ids) -> npt.NDArray[np.bool_]:
    """(n,) → (n,): which tokens are special. The unknown token is not: it stands for some text."""
    special: npt.NDArray[np.bool_] = np.isin(ids, list(tokenizer.specials.values()))
    return special
