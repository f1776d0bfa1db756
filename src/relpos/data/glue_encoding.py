"""Sentences to token ids: `[CLS] a [SEP]` (types 0) `b [SEP]` (types 1), the longer one cut first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relpos.data.glue import Rows
from relpos.errors import RelposError

Ids = NDArray[np.int32]


class Tokenizing(Protocol):
    """What is needed of a tokenizer."""

    cls: int
    sep: int
    pad: int

    def encode(self, texts: list[str], /) -> Sequence[Ids] | Sequence[Sequence[int]]: ...


@dataclass(frozen=True)
class Encoded:
    """Encoded rows, unpadded."""

    ids: list[Ids]  # (n_i,)
    types: list[NDArray[np.uint8]]  # (n_i,)
    labels: Tensor | None  # (rows,) int64 classes or float32 scores
    indices: list[int]
    pad: int
    length: int  # no row is longer
    groups: list[int] | None = None  # as of `Rows`

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> Tensor:
        return torch.tensor([len(row) for row in self.ids])


def encode(rows: Rows, tokenizer: Tokenizing, length: int = 128) -> Encoded:
    """Raises: RelposError where `length` has no room for a token of each sentence."""
    between = 1 if rows.sentence_b is None else getattr(tokenizer, "separators", 1)
    if length < 4 + between:
        raise RelposError(f"length={length}: a pair needs at least {4 + between} positions, [CLS] a {'[SEP] ' * between}b [SEP]")
    firsts = tokenizer.encode(rows.sentence_a)
    seconds = None if rows.sentence_b is None else tokenizer.encode(rows.sentence_b)
    ids, types = [], []
    for row, first in enumerate(firsts):
        second = None if seconds is None else np.asarray(seconds[row], dtype=np.int32)
        row_ids, row_types = _assemble(np.asarray(first, dtype=np.int32), second, tokenizer, length)
        ids.append(row_ids)
        types.append(row_types)
    labels = None
    if rows.labels is not None:
        labels = torch.tensor(rows.labels, dtype=_kind(rows.labels))
    return Encoded(ids, types, labels, rows.indices, tokenizer.pad, length, rows.groups)


def cut(a: int, b: int, room: int) -> tuple[int, int]:
    """Longest first: the lengths left when the longer of two loses its last token until `a + b <= room`.

    Of two equally long ones the second loses its token first, as in the library that the authors used.
    """
    if a + b <= room:
        return a, b
    half = room // 2
    if b <= half:
        return room - b, b
    if a <= room - half:
        return a, room - a
    return room - half, half


def _assemble(a: Ids, b: Ids | None, tokenizer: Tokenizing, length: int) -> tuple[Ids, NDArray[np.uint8]]:
    """Ids and types of one row."""
    between = getattr(tokenizer, "separators", 1)
    kept_a, kept_b = cut(len(a), 0 if b is None else len(b), length - (2 if b is None else 2 + between))
    second = kept_a + 1 + between  # where b begins
    ids = np.full(kept_a + 2 if b is None else second + kept_b + 1, tokenizer.sep, dtype=np.int32)
    ids[0] = tokenizer.cls
    ids[1 : kept_a + 1] = a[:kept_a]
    if b is not None:
        ids[second:-1] = b[:kept_b]
    types = np.zeros(len(ids), dtype=np.uint8)
    types[second:] = 1
    return ids, types


def _kind(labels: Sequence[int] | Sequence[float]) -> torch.dtype:
    return torch.float32 if any(isinstance(label, float) for label in labels) else torch.int64
