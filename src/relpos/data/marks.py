"""The ids of the special tokens that examples are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Marks:
    """[PAD], [CLS], [SEP] and [MASK] of a tokenizer; the defaults are ours."""

    pad: int = 0
    cls: int = 2
    sep: int = 3
    mask: int = 4


OURS = Marks()
