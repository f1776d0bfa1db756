"""F̂_P against loops over the equation, for each choice that the paper leaves open."""

from typing import Any

import pytest
import torch

from relpos.analysis.profiles import profiles
from relpos.errors import RelposError
from schemes import model_of

N = 5


def looped(encoder: Any, layer: int, norm: bool = True, types: bool = True, bias: bool = True, words: bool = True) -> torch.Tensor:
    """Eq. 12 by loops; the tiny network has narrow embeddings, so that every step is there."""
    embedding, attention = encoder.embedding, encoder.layers[layer].attention

    def entering(row: torch.Tensor) -> torch.Tensor:
        x = embedding.norm(row) if norm else row
        x = embedding.widen.weight @ x
        return x + embedding.widen.bias if bias else x

    def projected(x: torch.Tensor, part: int, head: int) -> torch.Tensor:
        rows = slice(8 * part + 4 * head, 8 * part + 4 * head + 4)
        made = attention.project.weight[rows] @ x
        return made + attention.project.bias[rows] if bias else made

    word = embedding.words.weight.mean(0) + (embedding.types.weight[0] if types else 0)
    found = torch.zeros(2, N, N, dtype=torch.float64)
    for head in range(2):
        alone = [projected(entering(word), part, head) for part in (0, 1)]
        for i in range(N):
            for j in range(N):
                q = projected(entering(word + encoder.position.table[i]), 0, head)
                k = projected(entering(word + encoder.position.table[j]), 1, head)
                found[head, i, j] = q @ k - alone[0] @ alone[1] if words else (q - alone[0]) @ (k - alone[1])
    return found / 2.0  # head_dim 4


@pytest.mark.parametrize("without", [None, "norm", "types", "bias", "words"])
@torch.no_grad()
def test_equals_loops(without: str | None) -> None:
    encoder, choices = model_of("absolute").encoder, {without: False} if without else {}
    torch.testing.assert_close(profiles(encoder, 1, N, **choices), looped(encoder, 1, **choices), atol=1e-10, rtol=0)


def test_without_norm_words_and_biases_it_is_the_product_of_projected_position_rows() -> None:
    encoder = model_of("absolute").encoder
    found = profiles(encoder, 0, N, norm=False, bias=False, words=False)
    rows = encoder.position.table.detach()[:N] @ encoder.embedding.widen.weight.detach().T
    q, k = (rows @ part.T for part in encoder.layers[0].attention.project.weight.detach()[:16].split(8))
    torch.testing.assert_close(found[1], q[:, 4:] @ k[:, 4:].T / 2)


def test_the_stream_of_one_repeated_text_is_what_enters_the_layer() -> None:
    encoder = model_of("absolute").eval().encoder
    text = torch.tensor([[5, 9, 7, 11, 6]])
    with torch.no_grad():
        states = encoder(text, hidden_states=True)[1][0]
        weight, bias = encoder.layers[1].attention.project.weight, encoder.layers[1].attention.project.bias
        q, k = (states @ weight[rows].T + bias[rows] for rows in (slice(0, 4), slice(8, 12)))
        word_q, word_k = (states.mean(0) @ weight[rows].T + bias[rows] for rows in (slice(0, 4), slice(8, 12)))
    found = profiles(encoder, 1, N, text.expand(20, -1), source="stream")
    torch.testing.assert_close(found[0], (q @ k.T - word_q @ word_k) / 2)


@pytest.mark.parametrize(
    ("position", "layer", "choices", "said"),
    [
        ("tisa", 0, {}, "Tisa adds nothing to the embeddings"),
        ("absolute", 2, {}, "layer=3: there are 2"),
        ("absolute", 0, {"source": "stream"}, "there are none"),
    ],
)
def test_what_has_no_profile_is_refused(position: str, layer: int, choices: dict[str, Any], said: str) -> None:
    with pytest.raises(RelposError, match=said):
        profiles(model_of(position).encoder, layer, N, **choices)
