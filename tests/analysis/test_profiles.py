"""F̂_P against loops over the equation."""

from typing import Any

import pytest
import torch

from relpos.analysis.profiles import profiles
from relpos.errors import RelposError
from schemes import model_of, network, preset

N = 5


def looped(encoder: Any, layer: int) -> torch.Tensor:
    """Eq. 12 by loops; the tiny network has narrow embeddings, so that every step is there."""
    embedding, attention, first = (
        encoder.embedding,
        encoder.layers[layer].attention,
        encoder.layers[layer].attention_norm,
    )

    def affine(part: Any, x: torch.Tensor, rows: slice = slice(None)) -> torch.Tensor:
        y: torch.Tensor = part.weight[rows] @ x
        return y if part.bias is None else y + part.bias[rows]

    def by_rms(x: torch.Tensor, norm: Any) -> torch.Tensor:
        y: torch.Tensor = x / (x.square().mean() + norm.eps) ** 0.5 * norm.weight
        return y

    def entering(row: torch.Tensor) -> torch.Tensor:
        hidden = affine(embedding.widen, embedding.norm(row))
        return by_rms(hidden, first) if encoder.layers[layer].block.norm_first else hidden

    def projected(x: torch.Tensor, part: int, head: int) -> torch.Tensor:
        vector = affine(attention.project, x, slice(8 * part + 4 * head, 8 * part + 4 * head + 4))
        return by_rms(vector, attention.norms["qk"[part]]) if attention.norms else vector

    word = embedding.words.weight.mean(0) + embedding.types.weight[0]
    scores = torch.zeros(2, N, N, dtype=torch.float64)
    for head in range(2):
        alone = [projected(entering(word), part, head) for part in (0, 1)]
        for i in range(N):
            for j in range(N):
                q = projected(entering(word + encoder.position.table[i]), 0, head)
                k = projected(entering(word + encoder.position.table[j]), 1, head)
                scores[head, i, j] = q @ k - alone[0] @ alone[1]
    return scores / 2.0  # head_dim 4


@pytest.mark.parametrize(
    "block", [{}, {"norm_first": True, "norm": "rms", "bias": False, "qk_norm": True}]
)
@torch.no_grad()
def test_profiles_equal_loops(block):
    encoder = network(preset("position", "absolute"), **block).encoder
    torch.testing.assert_close(profiles(encoder, 1, N), looped(encoder, 1), atol=1e-10, rtol=0)


@pytest.mark.parametrize("conv", ["qk", "canon", "inkling", "kv_shift"])
def test_queries_and_keys_that_read_their_neighbours_have_no_profile(conv):
    with pytest.raises(RelposError, match="not linear maps"):
        profiles(network(preset("position", "absolute"), conv=preset("conv", conv)).encoder, 0, N)


@pytest.mark.parametrize(
    ("position", "layer", "message"),
    [("tisa", 0, "Tisa adds nothing to the embeddings"), ("absolute", 2, "layer=3: there are 2")],
)
def test_networks_without_profiles_are_refused(position, layer, message):
    with pytest.raises(RelposError, match=message):
        profiles(model_of(position).encoder, layer, N)
