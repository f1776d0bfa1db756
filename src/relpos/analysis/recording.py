"""What a position scheme receives and returns, recorded during one forward pass."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from relpos.model.encoder import Encoder
from relpos.model.kernels.eager import scores
from relpos.model.position import Scheme, Terms
from relpos.model.position.base import HIDDEN
from relpos.model.shape import Heads, Ids, Turned


@dataclass(frozen=True)
class Call:
    """What was recorded of one pass through a layer; `heads` are q and k as projected, None where
    the attention has none."""

    layer: int
    heads: tuple[Heads, Heads] | None
    state: object
    terms: Terms
    causal: bool

    def seen(
        self, scores: Float[Tensor, "*tokens n"], offsets: Int[Tensor, "..."]
    ) -> Float[Tensor, "*tokens n"]:
        """What is added to the scores at these offsets, NaN where a token sees nothing: there the
        number is a large negative one, which would flatten a figure and drown all others in a
        mean."""
        hidden = (scores <= HIDDEN / 2) | ((offsets > 0) & self.causal)
        if self.terms.reach is not None:
            hidden |= offsets.abs() > self.terms.reach
        return scores.masked_fill(hidden, torch.nan)

    def turned(
        self,
        position: Scheme,
        heads: tuple[Heads, Heads] | None,
    ) -> tuple[Turned, Turned] | None:
        """q and k as this pass turns them; None where there are none or they are left as they
        are."""
        if heads is None or position.scale is None:
            return None
        q, k = heads
        to_q, to_k, _ = position.turn(self.layer, q, k, q, self.state)
        # By identity: a scheme that does not turn returns its arguments.
        if to_q is q and to_k is k:
            return None
        return to_q, to_k


@torch.no_grad()
def record(encoder: Encoder, input_ids: Ids) -> list[Call]:
    """Every pass through a layer that has scores, in evaluation mode."""
    position = encoder.position
    calls: list[Call] = []
    fill = position.terms

    def spy(layer: int, q: Heads | None, k: Heads | None, state: object) -> Terms:
        heads = None if q is None or k is None else (q, k)
        terms = fill(layer, q, k, state).multiplied()
        calls.append(Call(layer, heads, state, terms, encoder.causal))
        return terms

    training = encoder.training
    position.terms = spy  # type: ignore[method-assign]
    try:
        encoder.eval()
        encoder(input_ids)
    finally:
        encoder.train(training)
        del position.terms  # of the instance: the class's own method is back
    return calls


def random_ids(encoder: Encoder, sequences: int, length: int) -> Ids:
    """Random ids, always the same; shorter than `length` where the scheme takes no longer
    sequences."""
    words = encoder.embedding.words
    if encoder.position.max_length is not None:
        length = min(length, encoder.position.max_length)
    generator = torch.Generator().manual_seed(0)
    return torch.randint(words.num_embeddings, (sequences, length), generator=generator).to(
        words.weight.device
    )


def added(terms: Terms, n: int) -> Float[Tensor, "batch heads {n} {n}"] | None:
    """T: all that the terms add to the scores; batch is 1 where it is the same for all sequences;
    None where they add nothing."""
    filled = [table for table in (terms.query, terms.key, terms.dense) if table is not None]
    if terms.offset is not None:
        filled.append(terms.offset[None, :, None])  # (1, H, 1, 2n−1)
    if not filled:
        return None
    like = filled[0].new_empty(max(map(len, filled)), filled[0].shape[1], n, 0)
    return scores(None, None, terms, like).cpu()
