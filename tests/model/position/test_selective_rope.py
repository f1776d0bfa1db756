"""Selective RoPE: where it is RoPE and where nothing, and what an angle depends on."""

import math

import pytest
import torch

from relpos.model.position import Rope, SelectiveRope
from relpos.model.position.base import Input
from schemes import SHAPE, given, numbers


def scores(scheme: SelectiveRope, seen: Input) -> torch.Tensor:
    """q·k (H, n, n) of one layer, for the same q and k at all tokens."""
    n = seen.held.n
    q, k = numbers(2, 1, SHAPE.heads, 1, SHAPE.head_dim).expand(-1, -1, -1, n, -1)
    q, k, _ = scheme.turn(1, q, k, q, scheme.see(1, seen, scheme.prepare(n)))
    return (q @ k.transpose(-1, -2))[0]


def test_a_constant_angle_is_rope():
    """Inputs that are all the same, and no taps beside the token itself."""
    scheme, rope = (
        SelectiveRope(SHAPE, side=0, rank=1, base=10.0).double(),
        Rope(SHAPE, base=10.0).double(),
    )
    seen = given(SHAPE, 1, 7)
    seen.x[:] = 1.0
    with torch.no_grad():
        scheme.down[:] = 1 / math.sqrt(SHAPE.heads * SHAPE.hidden)
        scheme.up[:] = 1.0
        scheme.taps[:] = 1.0
    ones = torch.ones(1, SHAPE.heads, 7, SHAPE.head_dim, dtype=torch.float64)
    # the first token has one angle behind it
    places = rope.turn(1, ones, ones, ones, rope.prepare(8)[1:])[0]
    torch.testing.assert_close(
        scheme.turn(1, ones, ones, ones, scheme.see(1, seen, None))[0], places
    )


@pytest.mark.parametrize("side", [0, 1, 2])
def test_a_score_depends_on_the_tokens_between_and_their_neighbours(side):
    scheme = SelectiveRope(SHAPE, side=side).double()
    seen = given(SHAPE, 1, 9)
    before = scores(scheme, seen)
    seen.x[0, 4] += 1
    changed = (scores(scheme, seen) - before).abs().amax(0) > 1e-12
    expected = [
        [min(i, j) < 4 + side and max(i, j) >= 4 - side and i != j for j in range(9)]
        for i in range(9)
    ]
    assert changed.tolist() == expected
