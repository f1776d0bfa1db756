"""Masked language modelling: which tokens are predicted, and what stands in their place (Devlin et al. 2019).

Every token of text is chosen with probability `rate`, 0.15; of the chosen, 80 % become [MASK], 10 % an id drawn evenly from
the whole vocabulary, special ids included, 10 % stay. A pure function of the keys: no generator, no state.
[CLS], [SEP] and padding are never chosen.
Differs from the authors' code: the attention mask comes from the lengths, so that a token replaced by [PAD] is still
seen (theirs is taken from the ids after the replacement).
"""

from __future__ import annotations

import torch
from torch import Tensor

from relpos.counter import counter_hash, uniform
from relpos.data.marks import OURS, Marks

IGNORED = -100  # the label of what is not predicted
RATE = 0.15  # of the tokens that are chosen


def mask(
    input_ids: Tensor, lengths: Tensor, keys: Tensor, seed: int, vocabulary: int, rate: float = RATE, marks: Marks = OURS
) -> tuple[Tensor, Tensor]:
    """input_ids (b, n), lengths (b,), keys (b,) -> (input_ids, labels), both (b, n). A row's masks depend on `seed`,
    its key and the token's place alone."""
    place = torch.arange(input_ids.shape[1], device=input_ids.device)[None, :]  # (1, n)
    row = keys[:, None]  # (b, 1)
    text = text_tokens(input_ids, lengths, marks)
    # Each token by itself. BERT's code chooses exactly 15 % of each row, so that a token's mask depends on the others.
    chosen = text & (uniform(seed, row, place, 0) < rate)
    how = uniform(seed, row, place, 1)
    drawn = (counter_hash(seed, row, place, 2) >> 1 & (1 << 62) - 1) % vocabulary
    replaced = torch.where(how < 0.8, torch.full_like(input_ids, marks.mask), torch.where(how < 0.9, drawn, input_ids))
    ids = torch.where(chosen, replaced, input_ids)
    labels = torch.where(chosen, input_ids, torch.full_like(input_ids, IGNORED))
    return ids, labels


def text_tokens(input_ids: Tensor, lengths: Tensor, marks: Marks) -> Tensor:
    """(b, n) true at tokens that are neither special nor padding."""
    real = torch.arange(input_ids.shape[1], device=input_ids.device)[None, :] < lengths[:, None]
    return real & (input_ids != marks.cls) & (input_ids != marks.sep) & (input_ids != marks.pad)
