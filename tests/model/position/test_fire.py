"""FIRE: its start, what the sign adds, and distances beyond the learned length."""

import torch
from torch import nn

from relpos.model.position import Fire
from schemes import SHAPE


def test_the_numbers_are_those_of_two_linear_maps_of_torch() -> None:
    scheme = Fire(SHAPE, width=5, length=20).double()
    inner, outer = nn.Linear(1, 5).double(), nn.Linear(5, SHAPE.heads).double()
    with torch.no_grad():
        inner.weight.copy_(scheme.inner[:, None]), inner.bias.copy_(scheme.inner_bias)
        outer.weight.copy_(scheme.outer), outer.bias.copy_(scheme.outer_bias)
    distance = torch.arange(-30, 31).abs().double()
    c = torch.tensor(0.1).double()  # begins in float32
    x = torch.log1p(c * distance) / (torch.log1p(c * 20) + 1e-6)
    torch.testing.assert_close(scheme.prepare(31), outer(inner(x[:, None]).relu()).t(), atol=1e-12, rtol=1e-12)


def test_the_learned_length_stands_at_one() -> None:
    places = Fire(SHAPE, length=7).double().places(9)
    torch.testing.assert_close(places[[1, 15]], torch.ones(2).double(), atol=1e-5, rtol=0)
    assert places[16] > 1


def test_negative_parameters_count_as_positive_ones() -> None:
    scheme = Fire(SHAPE)
    before = scheme.prepare(5)
    with torch.no_grad():
        scheme.c.neg_(), scheme.multiplier.neg_()
    assert torch.equal(scheme.prepare(5), before)
