"""FoX's gates: where it is ALiBi, what each gate reaches, and in which number format sums are."""

import math

import pytest
import torch

from relpos.model.position import Fox
from schemes import SHAPE, added, given


@pytest.mark.parametrize("bias", [0.0, 5.0])
def test_a_constant_gate_is_alibi(bias):
    scheme = Fox(SHAPE, bias).double()
    torch.nn.init.zeros_(scheme.gates)
    offsets = torch.arange(9)[None, :] - torch.arange(9)[:, None]
    slope = math.log(1 + math.exp(-bias))
    torch.testing.assert_close(
        added(scheme, given(SHAPE, 2, 9)),
        (-slope * offsets.abs()).double().expand(2, SHAPE.heads, 9, 9),
    )


def test_a_gate_stands_between_its_token_and_what_precedes_it():
    """On both sides: of the pairs (i, j) those that the gate of token 3 parts from one another, and
    those it closes."""
    scheme = Fox(SHAPE).double()
    seen = given(SHAPE, 1, 7)
    before = added(scheme, seen)
    seen.x[0, 3] += 1
    changed = (added(scheme, seen) - before).abs().amax((0, 1)) > 1e-12
    expected = [[min(i, j) < 3 <= max(i, j) for j in range(7)] for i in range(7)]
    assert changed.tolist() == expected
