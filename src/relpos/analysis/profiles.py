"""What position embeddings do to the attention scores of each head: F̂_P of Wennberg & Henter 2021
(Eq. 12, Appendix C).

A token at position i enters a layer as x_i = w̄ + P_i, with w̄ the mean of all word embeddings. Its
score with another splits into the product of the words, which no position enters, and the rest:

    F̂_P[i, j] = (x_i W_Q · x_j W_K − w̄ W_Q · w̄ W_K) / √d_h

The equations leave out what lies between embeddings and queries in the models that the paper
studies. All of it is part of F̂_P
here: w̄ has the row of token type 0, embeddings are normed and widened, and queries and keys have
their biases; with `norm_first` the layer norms its input, and with `qk_norm` there are norms behind
W_Q and W_K.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from relpos.analysis.fit import Fit, check_offsets, fit_heads
from relpos.analysis.toeplitz import diagonal_means
from relpos.errors import RelposError
from relpos.model.encoder import Encoder, Layer


@torch.no_grad()
def profiles(encoder: Encoder, layer: int = 0, length: int = 128) -> Float[Tensor, "heads n n"]:
    """F̂_P of a layer, divided by √d_h, in float64; (i, j) is what position i adds to its score of
    position j, also where j is not seen, as behind i in a causal network.

    Args:
        layer: from 0.
        length: n, at most as many positions as the network has.

    Raises:
        RelposError: no such layer, a network without position embeddings, or one whose queries and
            keys are not linear maps.
    """
    if not 0 <= layer < encoder.shape.layers:
        raise RelposError(f"layer={layer + 1}: there are {encoder.shape.layers}")
    check_maps(encoder)
    # A network may have fewer positions than the paper's figures show.
    rows = encoder.position.embed(min(length, encoder.position.max_length or length))
    if rows is None:
        raise RelposError(
            f"{type(encoder.position).__name__} adds nothing to the embeddings: there is no F̂_P"
        )
    embedding = encoder.embedding
    # In float64: the difference of two large products is what is left of both.
    word = embedding.words.weight.double().mean(0, keepdim=True)
    if embedding.types is not None:
        word = word + embedding.types.weight[0].double()
    (q, k), (word_q, word_k) = (
        _queries_and_keys(encoder, layer, x) for x in (word + rows.double(), word)
    )
    return ((q @ k.mT - word_q @ word_k.mT) * float(encoder.shape.head_dim) ** -0.5).cpu()


def check_maps(encoder: Encoder, length: int = 0, functions: int = 0) -> None:
    """Raises RelposError where queries and keys are no linear maps, or F̂_P of this length has too
    few offsets for a fit of so many `functions`."""
    attention = _layer(encoder, 0).attention
    if not {"q", "k"} <= attention.widths.keys() or attention.conv.places & {"input", "q", "k"}:
        raise RelposError(
            "the queries and keys of this network are not linear maps: there is no F̂_P"
        )
    if functions:
        check_offsets(2 * min(length, encoder.position.max_length or length) - 1, functions)


def fit_profiles(matrices: Float[Tensor, "heads n n"], functions: int) -> list[Fit]:
    """TISA of S functions for each head, fitted by least squares to F̂_P of one layer: an offset
    counts as often as it occurs."""
    n = matrices.shape[-1]
    # A matrix has n − |o| entries at offset o.
    weights = n - np.abs(np.arange(1 - n, n))
    return fit_heads(np.stack([diagonal_means(head) for head in matrices]), functions, weights)


def _in_float64(module: torch.nn.Module, x: Tensor) -> Tensor:
    # a copy, because `.double()` changes a module in place
    y: Tensor = copy.deepcopy(module).double()(x)
    return y


def _layer(encoder: Encoder, number: int) -> Layer:
    # Shared layers are stored once, and run several times.
    layer = encoder.layers[number % len(encoder.layers)]
    assert isinstance(layer, Layer)
    return layer


def _queries_and_keys(
    encoder: Encoder,
    layer: int,
    rows: Float[Tensor, "n embedding"],
) -> tuple[Tensor, Tensor]:
    """Queries and keys, (heads, n, head_dim) each, of rows of the embedding's width."""
    embedding, own = encoder.embedding, _layer(encoder, layer)
    x = _in_float64(embedding.widen, _in_float64(embedding.norm, rows))
    attention = own.attention
    if own.block.norm_first:
        x = _in_float64(own.attention_norm, x)
    project = attention.project
    sizes = list(attention.widths.values())
    shift = project.weight.new_zeros(sum(sizes)) if project.bias is None else project.bias
    parts = (part.double().split(sizes) for part in (project.weight, shift))
    maps = dict(zip(attention.widths, zip(*parts, strict=True), strict=True))

    def heads(name: str) -> Tensor:
        projected = torch.nn.functional.linear(x, *maps[name])
        projected = projected.view(len(x), -1, encoder.shape.head_dim)
        if name in attention.norms:
            projected = _in_float64(attention.norms[name], projected)
        return projected.transpose(0, 1)

    return heads("q"), heads("k")
