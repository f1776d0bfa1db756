"""What is predicted of an example, and what the network sees of it.

These are functions of the example's ids and, where something is drawn, of its key: no generator, no state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from relpos.counter import uniform
from relpos.data.marks import OURS, Marks
from relpos.data.masking import IGNORED, RATE, mask, text_tokens
from relpos.ranges import Share

Masking = Literal["bert", "diffusion", "answer"] | Share | tuple[Share, Share]
LEAST = 1e-3
"""The smallest rate of `diffused`, which bounds the weight of a row."""
_RATE = 0x72617465  # keeps the draw of a row's rate apart from the others


class Predicted(NamedTuple):
    """input_ids (b, n) as the network sees them; labels (b, n) at the tokens that are predicted, −100 = not predicted; and by how
    much the loss of each row counts, (b,), None: all alike."""

    input_ids: Tensor
    labels: Tensor
    weights: Tensor | None = None

    @property
    def chosen(self) -> Tensor:
        """() the number of predicted tokens, by their weights where there are some."""
        predicted = (self.labels != IGNORED).sum(1)
        return (predicted if self.weights is None else predicted * self.weights.double()).sum()


class Objective(Protocol):
    """ids (b, n) as they stand in the text, lengths (b,), keys (b,) → what is predicted; a row depends on `seed`, the training's
    `step`, its key and its ids alone."""

    def __call__(
        self, input_ids: Tensor, lengths: Tensor, keys: Tensor, seed: int, vocabulary: int, marks: Marks = OURS, step: int = 0
    ) -> Predicted: ...


@dataclass(frozen=True)
class Masked:
    """BERT's masks, see `relpos.data.masking.mask`, at a rate that may change linearly in training (Ankner et al. 2024, "Dynamic
    masking rate schedules for MLM pretraining"):

        p_s = first + (last − first) s / steps      at step s = 0, …, steps − 1
    """

    first: float = RATE
    last: float = RATE
    steps: int = 1

    def rate(self, step: int) -> float:
        """p_s."""
        return self.first if self.first == self.last else self.first + (self.last - self.first) * step / self.steps

    def __call__(
        self, input_ids: Tensor, lengths: Tensor, keys: Tensor, seed: int, vocabulary: int, marks: Marks = OURS, step: int = 0
    ) -> Predicted:
        return Predicted(*mask(input_ids, lengths, keys, seed, vocabulary, self.rate(step), marks))


masked = Masked()


def next_tokens(
    input_ids: Tensor, lengths: Tensor, keys: Tensor, seed: int, vocabulary: int, marks: Marks = OURS, step: int = 0
) -> Predicted:
    """Every token of text from the tokens before it; nothing is masked. [CLS] and [SEP] are read and not predicted, as with masks,
    so that the same tokens count whatever order they stand in."""
    return Predicted(input_ids, input_ids.masked_fill(~text_tokens(input_ids, lengths, marks), IGNORED))


def diffused(
    input_ids: Tensor, lengths: Tensor, keys: Tensor, seed: int, vocabulary: int, marks: Marks = OURS, step: int = 0
) -> Predicted:
    """Masks of a diffusion model (Nie et al. 2025, "Large language diffusion models", Eq. 3, and its code's smallest rate):

        t = ε + (1 − ε) u, u ~ U(0, 1) for each row      each token of text becomes [MASK] with probability t      weight 1/t

    With 1/t a row of few masks counts as much as one of many, and the loss bounds the likelihood of the text. A step divides the
    weighted sum of its losses by the weighted number of its masks. Differs from the paper: Eq. 3 divides by the number of tokens of
    text, the mean of that number, and a token that is masked at a small t then has up to 1/ε times its gradient. The ratio has no
    such steps, but it is biased: rows with small t, whose losses are the lowest, count too little, by about ln(1/ε) divided by the
    number of tokens of the step.
    """
    rates = LEAST + (1 - LEAST) * uniform(seed, keys, _RATE)
    text = text_tokens(input_ids, lengths, marks)
    place = torch.arange(input_ids.shape[1], device=input_ids.device)[None, :]
    chosen = text & (uniform(seed, keys[:, None], place, 0) < rates[:, None])
    labels = input_ids.masked_fill(~chosen, IGNORED)
    return Predicted(input_ids.masked_fill(chosen, marks.mask), labels, (1 / rates).float())


def answered(
    input_ids: Tensor, lengths: Tensor, keys: Tensor, seed: int, vocabulary: int, marks: Marks = OURS, step: int = 0
) -> Predicted:
    """Every token of the second sentence is masked and predicted; nothing is drawn."""
    chosen = ((input_ids == marks.sep).cumsum(1) > 0) & text_tokens(input_ids, lengths, marks)
    return Predicted(input_ids.masked_fill(chosen, marks.mask), input_ids.masked_fill(~chosen, IGNORED))


def masks(masking: Masking, steps: int = 1) -> Objective:
    """What `recipe.masking` names in a training of so many steps; a number is the share of the tokens that are chosen, two are the
    first and the last share, and otherwise the masks are BERT's."""
    if isinstance(masking, str):
        named: dict[str, Objective] = {"bert": masked, "diffusion": diffused, "answer": answered}
        return named[masking]
    shares = [masking] if isinstance(masking, float | int) else masking
    return Masked(shares[0], shares[-1], steps)
