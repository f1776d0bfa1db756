"""The encoder: post-layer-norm BERT with factorised embeddings, as Chang et al. ran it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional

from relpos.errors import RelposError, nearest
from relpos.model import kernels
from relpos.model.attention import Attention
from relpos.model.conv import Conv, NoConv
from relpos.model.dropout import Dropout
from relpos.model.position.base import Position, Scheme
from relpos.model.precision import compute_dtype
from relpos.model.residual import add_norm
from relpos.model.shape import Hidden, Ids, Mask, Shape

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
}


class Embedding(nn.Module):
    """ids (B, n) → (B, n, hidden): words + token types + positions → layer norm over the embedding's width → dropout → linear
    map to the hidden width. The map exists only where the widths differ, and nothing follows it.
    """

    def __init__(self, shape: Shape, vocabulary: int, token_types: int, dropout: float, norm_eps: float) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, shape.embedding)
        self.types = nn.Embedding(token_types, shape.embedding)
        self.norm = nn.LayerNorm(shape.embedding, eps=norm_eps)
        self.dropout = Dropout(dropout)
        self.widen = nn.Identity() if shape.embedding == shape.hidden else nn.Linear(shape.embedding, shape.hidden)

    def forward(self, input_ids: Ids, token_types: Ids | None, positions: Float[Tensor, "n embedding"] | None) -> Hidden:
        types = self.types.weight[0] if token_types is None else self.types(token_types)
        x = self.words(input_ids) + types
        if positions is not None:
            x = x + positions.to(x.dtype)
        x = self.norm(x)
        return self.widen(self.dropout(x.to(compute_dtype(x))))


class Layer(nn.Module):
    """x ← LN(x + drop(attention(x))); x ← LN(x + drop(W_2 act(W_1 x)))."""

    def __init__(self, shape: Shape, attention: Attention, ffn: int, dropout: float, activation: str, norm_eps: float) -> None:
        super().__init__()
        self.attention = attention
        self.attention_dropout, self.attention_norm = Dropout(dropout), nn.LayerNorm(shape.hidden, eps=norm_eps)
        self.widen, self.narrow = nn.Linear(shape.hidden, ffn), nn.Linear(ffn, shape.hidden)
        self.ffn_dropout, self.ffn_norm = Dropout(dropout), nn.LayerNorm(shape.hidden, eps=norm_eps)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Hidden, mask: Mask | None, position: Scheme, layer: int, state: Any) -> Hidden:
        y = self.attention(x, mask, position, layer, state)
        x = add_norm(x, y, self.attention_norm, self.attention_dropout.draw(layer))
        y = self.narrow(self.activation(self.widen(x)))
        return add_norm(x, y, self.ffn_norm, self.ffn_dropout.draw(layer))


class Encoder(nn.Module):
    """ids (B, n) → (B, n, hidden). `position` and `conv` are called with the Shape; `layers` counts passes."""

    def __init__(
        self,
        position: Position,
        conv: Callable[[Shape], Conv] | None = None,
        *,
        vocabulary: int,
        layers: int,
        hidden: int,
        embedding: int,
        heads: int,
        ffn: int,
        max_positions: int = 128,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        activation: str = "gelu",
        norm_eps: float = 1e-12,
        token_types: int = 2,
        share_layers: bool = False,
        kernel: str = "auto",
    ) -> None:
        super().__init__()
        _check_counts(layers=layers, hidden=hidden, embedding=embedding, heads=heads, ffn=ffn)
        _check_counts(max_positions=max_positions, token_types=token_types, vocabulary=vocabulary)
        _check_rates(dropout=dropout, attention_dropout=attention_dropout)
        if hidden % heads:
            raise RelposError(f"hidden={hidden} is not a multiple of heads={heads}")
        if activation not in ACTIVATIONS:
            raise RelposError(f"there is no activation {activation!r}.{nearest(str(activation), ACTIVATIONS)}")
        self.activation = activation
        self.shape = shape = Shape(heads, hidden // heads, hidden, embedding, layers, max_positions)
        # What a scheme or a convolution draws leaves all else as it is: the rows of a table are paired.
        with torch.random.fork_rng(devices=[]):
            # Not the numbers that the scheme draws.
            torch.default_generator.manual_seed(int(torch.randint(1 << 62, (), device="cpu")))
            convs = [(conv or NoConv)(shape) for _ in range(1 if share_layers else layers)]
        with torch.random.fork_rng(devices=[]):
            self.position = position(replace(shape, heads=convs[0].scored_heads or heads))
        convs[0].check_position(self.position)
        self.embedding = Embedding(shape, vocabulary, token_types, dropout, norm_eps)
        kernels.check_kernel(kernel)

        def layer(conv: Conv) -> Layer:
            made = Attention(shape, self.position.projections, conv, attention_dropout, kernel)
            return Layer(shape, made, ffn, dropout, activation, norm_eps)

        self.layers = nn.ModuleList(map(layer, convs))

    def forward(
        self, input_ids: Ids, attention_mask: Shaped[Tensor, "batch n"] | None = None, token_types: Ids | None = None
    ) -> Hidden:
        """attention_mask (B, n) is 1 at real tokens; None: all are real. token_types None: all of type 0."""
        n = input_ids.shape[1]
        self.position.check_length(n)
        mask = None if attention_mask is None else attention_mask.to(torch.bool)
        x = self.embedding(input_ids, token_types, self.position.embed(n))
        state = self.position.prepare(n)
        for number in range(self.shape.layers):
            x = self.layers[number % len(self.layers)](x, mask, self.position, number, state)
        return x


def _check_counts(**counts: int) -> None:
    for key, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise RelposError(f"{key} must be a whole number of 1 or more, not {value!r}")


def _check_rates(**rates: float) -> None:
    for key, value in rates.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            raise RelposError(f"{key} must be a number from 0 up to, not including, 1, not {value!r}")
