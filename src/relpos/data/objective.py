"""What is predicted of an example, and what the network sees of it.

These are functions of the example's ids and, where something is drawn, of its key: no generator, no state.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from relpos.data.marks import OURS, Marks
from relpos.data.masking import IGNORED, RATE, mask


class Predicted(NamedTuple):
    """input_ids (b, n) as the network sees them; labels (b, n) at the tokens that are predicted, −100 = not predicted."""

    input_ids: Tensor
    labels: Tensor


class Objective(Protocol):
    """ids (b, n) as they stand in the text, lengths (b,), keys (b,) → what is predicted; a row depends on `seed`, its key and its
    ids alone."""

    def __call__(
        self, input_ids: Tensor, lengths: Tensor, keys: Tensor, seed: int, vocabulary: int, marks: Marks = OURS
    ) -> Predicted: ...


def masked(
    input_ids: Tensor, lengths: Tensor, keys: Tensor, seed: int, vocabulary: int, marks: Marks = OURS, rate: float = RATE
) -> Predicted:
    """BERT's masks, see `relpos.data.masking.mask`."""
    return Predicted(*mask(input_ids, lengths, keys, seed, vocabulary, rate, marks))


def next_tokens(input_ids: Tensor, lengths: Tensor, keys: Tensor, seed: int, vocabulary: int, marks: Marks = OURS) -> Predicted:
    """Every token of text from the tokens before it; nothing is masked. [CLS] and [SEP] are read and not predicted, as with masks,
    so that the same tokens count whatever order they stand in."""
    real = torch.arange(input_ids.shape[1], device=input_ids.device)[None, :] < lengths[:, None]
    text = real & (input_ids != marks.cls) & (input_ids != marks.sep) & (input_ids != marks.pad)
    return Predicted(input_ids, input_ids.masked_fill(~text, IGNORED))
