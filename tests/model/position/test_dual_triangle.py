"""Dual triangle attention: what each head sees."""

from dataclasses import replace

import pytest
import torch

from relpos.model.kernels import eager
from relpos.model.position import DualTriangle
from schemes import SHAPE, batch, model_of

N = 70


@pytest.mark.parametrize("heads", [1, 2, 5])
def test_the_first_half_of_the_heads_sees_the_left_side_and_the_others_the_right_one(heads: int) -> None:
    scheme, q = DualTriangle(replace(SHAPE, heads=heads)), torch.zeros(1, heads, N, 4)
    seen = eager.probabilities(eager.scores(q, q, scheme.terms(0, q, q, scheme.prepare(N)), q), None)[0] > 0
    left = torch.ones(N, N).tril().bool()
    for head in range(heads):
        assert torch.equal(seen[head], left if head < heads / 2 else left.t())


def test_a_row_read_backwards_swaps_the_sides() -> None:
    """The halves of the heads change places, and the rows of W_o with them."""
    model = model_of("dual_triangle", layers=1).eval()
    ids, _ = batch(rows=1)
    forwards = model.encoder(ids)
    attention, d_h = model.encoder.layers[0].attention, SHAPE.head_dim
    swapped = torch.arange(SHAPE.hidden).roll(d_h)
    with torch.no_grad():
        for part in (attention.project.weight, attention.project.bias):
            part.copy_(part.unflatten(0, (3, -1))[:, swapped].flatten(0, 1))
        attention.output.weight.copy_(attention.output.weight[:, swapped])
    torch.testing.assert_close(model.encoder(ids.flip(1)).flip(1), forwards, atol=1e-11, rtol=1e-9)
