"""What is predicted of an example, and what the network sees of it.

An objective is a function of the example's ids and, where something is drawn, of its key: no
generator, no state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from relpos.counter import counter_hash, uniform
from relpos.data.tokenizer import OURS, Marks
from relpos.errors import RelposError
from relpos.ranges import Natural, Share
from relpos.readers import Plain
from relpos.trust import instantiate

IGNORED = -100  # the label of what is not predicted
RATE = 0.15  # of the tokens that are chosen
Masking = Literal["bert", "diffusion", "uniform"] | Share | tuple[Share, Share]
LEAST = 1e-3
"""The smallest rate of `diffused`, which bounds the weight of a row."""
_RATE = 0x72617465  # keeps the draw of a row's rate apart from the others


class Predicted(NamedTuple):
    """What an `Objective` makes of a batch.

    Args:
        input_ids: (b, n) as the network sees them.
        labels: (b, n) the ids that are predicted; −100 = not predicted.
        weights: (b,) by how much the loss of each row counts; None: all rows count alike.
    """

    input_ids: Tensor
    labels: Tensor
    weights: Tensor | None = None


class Unmasked(NamedTuple):
    """Ids (b, n) as they stand in the text, lengths (b,), keys (b,), and what draws depend on
    moreover."""

    input_ids: Tensor
    lengths: Tensor
    keys: Tensor
    seed: int
    vocabulary: int
    marks: Marks = OURS
    step: int = 0

    @property
    def place(self) -> Tensor:
        """(n,)"""
        return torch.arange(self.input_ids.shape[1], device=self.input_ids.device)

    @property
    def real(self) -> Tensor:
        """(b, n) true at tokens that are no padding."""
        return self.place < self.lengths[:, None]

    @property
    def text(self) -> Tensor:
        """(b, n) true at tokens that are neither special nor padding."""
        ids, marks = self.input_ids, self.marks
        return self.real & (ids != marks.cls) & (ids != marks.sep) & (ids != marks.pad)

    def drawn(self, number: int) -> Tensor:
        """(b, n) of U(0, 1), by the row's key and the token's place."""
        return uniform(self.seed, self.keys[:, None], self.place, number)


class Objective:
    """Examples as they stand in the text → what is predicted. A row of the result depends only on
    the seed, the training's step, the row's key and its ids."""

    def of(self, batch: Unmasked) -> Predicted:
        """What is predicted of these examples."""
        raise NotImplementedError

    @property
    def changes(self) -> bool:
        """Whether the result depends on the step."""
        return False

    @property
    def expected(self) -> float:
        """The share of the tokens that are predicted, on average over a training."""
        return 1.0

    @property
    def masking(self) -> object:
        """The value of `recipe.masking` for this objective, part of a run's meaning; None: it has
        none."""
        return None

    @property
    def heldout(self) -> Objective:
        """The objective of the held-out loss: BERT's masks, so that trainings with any masks
        compare."""
        return masked

    def on(self, causal: bool) -> Objective:
        """The objective for a network that is causal, or is not.

        Raises:
            RelposError: such a network cannot have it.
        """
        if causal and self.masking is not None:
            hint = ""
            if isinstance(self.masking, float):
                hint = "; its modern recipe is training=modern_causal"
            raise RelposError(
                f"recipe.masking={self.masking}: a causal network "
                f"(size.attention=causal) has no masks{hint}"
            )
        return self


@dataclass(frozen=True)
class Masked(Objective):
    """BERT's masks (Devlin et al. 2019), at a rate that may change linearly in training (Ankner et
    al. 2024, "Dynamic masking rate schedules for MLM pretraining"):

        p_s = first + (last − first) s / steps      at step s = 0, …, steps − 1

    Every token of text is chosen with probability p_s, 0.15; of the chosen, 80 % become [MASK],
    10 % an id drawn evenly from the whole vocabulary, special ids included, 10 % stay. [CLS], [SEP]
    and padding are never chosen. A row's masks depend on the seed, its key and the token's place
    alone.
    Differs from the authors' code: the attention mask comes from the lengths, so that a token
    replaced by [PAD] is still seen (theirs is taken from the ids after the replacement).
    """

    first: Share = RATE
    last: Share = RATE
    steps: Natural = 1

    @property
    def masking(self) -> object:
        if self.changes:
            return [self.first, self.last]
        return self.first

    @property
    def changes(self) -> bool:
        return self.first != self.last

    @property
    def expected(self) -> float:
        return (self.first + self.last) / 2

    def on(self, causal: bool) -> Objective:
        if causal and self.masking == RATE:
            return next_tokens
        return super().on(causal)

    def rate(self, step: int) -> float:
        """p_s."""
        if not self.changes:  # to the last bit
            return self.first
        return self.first + (self.last - self.first) * step / self.steps

    def of(self, batch: Unmasked) -> Predicted:
        ids = batch.input_ids
        row = batch.keys[:, None]
        # Each token is drawn by itself. BERT's code chooses exactly 15 % of each row, so a token's
        # mask depends on the other tokens.
        chosen = batch.text & (batch.drawn(0) < self.rate(batch.step))
        replacement = batch.drawn(1)
        drawn = counter_hash(batch.seed, row, batch.place, 2) >> 1 & (1 << 62) - 1
        kept_or_drawn = torch.where(replacement < 0.9, drawn % batch.vocabulary, ids)
        mask = torch.full_like(ids, batch.marks.mask)
        replaced = torch.where(replacement < 0.8, mask, kept_or_drawn)
        return Predicted(torch.where(chosen, replaced, ids), ids.masked_fill(~chosen, IGNORED))


masked = Masked()


@dataclass(frozen=True)
class NextTokens(Objective):
    """Every token of text is predicted from the tokens before it; none is masked. [CLS] and [SEP]
    are read and not predicted, as with masks, so that the same tokens count whatever order they
    stand in."""

    @property
    def heldout(self) -> Objective:
        return self

    def on(self, causal: bool) -> Objective:
        if not causal:
            raise RelposError(
                "objective=causal: only a causal network (size.attention=causal) "
                "predicts the next token"
            )
        return self

    def of(self, batch: Unmasked) -> Predicted:
        return Predicted(batch.input_ids, batch.input_ids.masked_fill(~batch.text, IGNORED))


@dataclass(frozen=True)
class Diffused(Objective):
    """Masks of a diffusion model (Nie et al. 2025, "Large language diffusion models", Eq. 3, and
    its code's smallest rate):

        t = ε + (1 − ε) u, u ~ U(0, 1) for each row      each token of text becomes [MASK] with probability t      weight 1/t

    With 1/t a row of few masks counts as much as one of many, and the loss bounds the likelihood of
    the text. A step divides the weighted sum of its losses by the weighted number of its masks.
    Differs from the paper: Eq. 3 divides by the number of tokens of text, the mean of that number,
    and a token that is masked at a small t then has up to 1/ε times its gradient. The ratio has no
    such steps, but it is biased: rows with small t, whose losses are the lowest, count too little,
    by about ln(1/ε) divided by the number of tokens of the step.

    Args:
        weighted: False: the share is drawn likewise, and each masked token counts alike.
    """

    weighted: bool = True
    expected = 0.5

    @property
    def masking(self) -> object:
        if self.weighted:
            return "diffusion"
        return "uniform"

    def of(self, batch: Unmasked) -> Predicted:
        rates = LEAST + (1 - LEAST) * uniform(batch.seed, batch.keys, _RATE)
        chosen = batch.text & (batch.drawn(0) < rates[:, None])
        labels = batch.input_ids.masked_fill(~chosen, IGNORED)
        weights = None
        if self.weighted:
            weights = (1 / rates).float()
        return Predicted(batch.input_ids.masked_fill(chosen, batch.marks.mask), labels, weights)


@dataclass(frozen=True)
class ByRecipe(Objective):
    """The objective that a recipe's `masking` names: a word; a number, the share of the tokens that
    are chosen; or two numbers, the first share and the last."""

    masking: Masking = "bert"
    steps: Natural = 1

    def on(self, causal: bool) -> Objective:
        if self.masking == "bert":
            objective: Objective = masked
        elif isinstance(self.masking, str):
            objective = Diffused(weighted=self.masking == "diffusion")
        elif isinstance(self.masking, float | int):
            objective = Masked(self.masking, self.masking, self.steps)
        else:
            objective = Masked(*self.masking, self.steps)
        return objective.on(causal)


next_tokens, diffused = NextTokens(), Diffused()


def trained_for(
    causal: bool,
    masking: Masking,
    steps: int,
    objective: Plain | None = None,
) -> Objective:
    """The objective of a pre-training: that of a node, or else the one that its recipe's `masking`
    names."""
    named: Objective = ByRecipe(masking, steps)
    if objective:
        named = instantiate(objective, "objective")
    return named.on(causal)
