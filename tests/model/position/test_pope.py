"""PoPE: what a score depends on, the bounds of its shifts, and values that are narrower than
queries and keys."""

import math
from typing import Any

import pytest
import torch

from relpos.model.position import Merge, Pope
from schemes import SHAPE, check_loops, model_of, numbers


def scores(scheme: Pope, n: int = 9) -> torch.Tensor:
    """q·k (H, n, n), for the same q and k at all tokens."""
    q, k = numbers(2, 1, SHAPE.heads, 1, SHAPE.head_dim).expand(-1, -1, -1, n, -1)
    q, k, _ = scheme.turn(0, q, k, k, scheme.prepare(n))
    return (q @ k.transpose(-1, -2))[0]


@pytest.mark.parametrize(("stored", "used"), [(0.5, 0.0), (-7.0, -2 * math.pi), (-1.0, -1.0)])
def test_shifts_have_bounds_which_an_update_writes_back(stored, used):
    scheme = Pope(SHAPE).double()
    torch.nn.init.constant_(scheme.shift, used)
    expected = scores(scheme)
    torch.nn.init.constant_(scheme.shift, stored)
    torch.testing.assert_close(scores(scheme), expected)
    scheme.begin_step(0)
    assert scheme.shift.unique().item() == pytest.approx(used)


@pytest.mark.parametrize("kernel", ["eager", "auto"])
@pytest.mark.parametrize("other", ["shaw", "composite_key"])
def test_other_terms_stand_beside_pope(other, kernel):
    """Value tables as wide as the head, and terms of the queries and keys as projected."""
    both: Any = model_of(other, kernel=kernel).eval()
    pope = Pope(SHAPE, uniform=True).double()
    both.encoder.position = Merge(
        SHAPE, [lambda _, position=both.encoder.position: position, lambda _: pope]
    )
    check_loops(both.encoder, ids=[7, 9, 5, 22, 0, 12, 8], real=[True] * 7, gradients=False)
