"""F̂_P against loops over the equation."""

from typing import Any

import pytest
import torch

from relpos.analysis.profiles import profiles
from relpos.errors import RelposError
from schemes import model_of

N = 5


def looped(encoder: Any, layer: int) -> torch.Tensor:
    """Eq. 12 by loops; the tiny network has narrow embeddings, so that every step is there."""
    embedding, attention = encoder.embedding, encoder.layers[layer].attention

    def entering(row: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = embedding.widen.weight @ embedding.norm(row) + embedding.widen.bias
        return made

    def projected(x: torch.Tensor, part: int, head: int) -> torch.Tensor:
        rows = slice(8 * part + 4 * head, 8 * part + 4 * head + 4)
        made: torch.Tensor = attention.project.weight[rows] @ x + attention.project.bias[rows]
        return made

    word = embedding.words.weight.mean(0) + embedding.types.weight[0]
    found = torch.zeros(2, N, N, dtype=torch.float64)
    for head in range(2):
        alone = [projected(entering(word), part, head) for part in (0, 1)]
        for i in range(N):
            for j in range(N):
                q = projected(entering(word + encoder.position.table[i]), 0, head)
                k = projected(entering(word + encoder.position.table[j]), 1, head)
                found[head, i, j] = q @ k - alone[0] @ alone[1]
    return found / 2.0  # head_dim 4


@torch.no_grad()
def test_equals_loops() -> None:
    encoder = model_of("absolute").encoder
    torch.testing.assert_close(profiles(encoder, 1, N), looped(encoder, 1), atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    ("position", "layer", "said"),
    [("tisa", 0, "Tisa adds nothing to the embeddings"), ("absolute", 2, "layer=3: there are 2")],
)
def test_what_has_no_profile_is_refused(position: str, layer: int, said: str) -> None:
    with pytest.raises(RelposError, match=said):
        profiles(model_of(position).encoder, layer, N)
