"""KERPLE's bounds: facts beyond the general laws."""

import pytest
import torch

from relpos.model.position import Kerple, KerplePower
from schemes import SHAPE

BOTH = pytest.mark.parametrize("kind", [Kerple, KerplePower])


@BOTH
def test_values_below_the_bound_count_as_the_bound(kind):
    low, bound = kind(SHAPE), kind(SHAPE)
    for scheme, value in ((low, -3.0), (bound, 0.01)):
        with torch.no_grad():
            scheme.p.fill_(value)
            scheme.a.fill_(value)
    assert torch.equal(low.prepare(6), bound.prepare(6))


@BOTH
def test_an_update_finds_every_value_within_bounds_and_with_a_gradient(kind):
    scheme = kind(SHAPE)
    with torch.no_grad():
        scheme.p.copy_(torch.tensor([-1.0, 5.0]))
        scheme.a.copy_(torch.tensor([-1.0, 5.0]))
    scheme.begin_step(0)
    assert scheme.p.tolist() == pytest.approx([0.01, 2.0 if kind is KerplePower else 5.0])
    assert scheme.a.tolist() == pytest.approx([0.01, 5.0])
    scheme.prepare(6).sum().backward()
    for parameter in scheme.parameters():
        assert parameter.grad is not None
        assert (parameter.grad != 0).all()
