"""FIRE: its start, what the sign adds, and distances beyond the learned length."""

import torch

from relpos.model.position import Fire
from schemes import SHAPE


def test_the_learned_length_stands_at_one():
    places = Fire(SHAPE, length=7).double().places(9)
    torch.testing.assert_close(places[[1, 15]], torch.ones(2).double(), atol=1e-5, rtol=0)
    assert places[16] > 1


def test_negative_parameters_count_as_positive_ones():
    scheme = Fire(SHAPE)
    before = scheme.prepare(5)
    with torch.no_grad():
        scheme.c.neg_(), scheme.multiplier.neg_()
    assert torch.equal(scheme.prepare(5), before)
