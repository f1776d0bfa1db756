"""Initial values are functions of (seed, name, element), the same bits on every processor."""

import hashlib

import pytest
import torch
from torch import nn

from relpos.counter import normal
from relpos.model.initial import normal_, redraw, uniform_
from schemes import POSITIONS, SIZE, VOCABULARY, build, preset

BITS = "cd42dc67e540"
"""The digest of the values below, the same with ATEN_CPU_CAPABILITY=default, avx2 and none."""


def digest(*tensors: torch.Tensor) -> str:
    content = hashlib.sha256()
    for tensor in tensors:
        content.update(tensor.detach().numpy().tobytes())
    return content.hexdigest()[:12]


def test_the_bits_are_promised():
    names = ["a.weight", "b.weight", "c.weight"]
    parameters = [
        normal_(nn.Parameter(torch.empty(300, 70)), 0.02),
        normal_(nn.Parameter(torch.empty(9)), 5.0, mean=0.1),
    ]
    parameters.append(uniform_(nn.Parameter(torch.empty(50, 40)), -0.3, 0.7))
    redraw(zip(names, parameters, strict=True), seed=7)
    assert digest(*parameters) == BITS


def test_normal_numbers_are_normal():
    x = normal(3, torch.arange(400_000)).double()
    assert abs(float(x.mean())) < 0.006
    assert float(x.std()) == pytest.approx(1, abs=0.005)
    assert float((x**4).mean()) == pytest.approx(3, abs=0.1)
    assert float((x.abs() > 3).double().mean()) == pytest.approx(0.0027, abs=0.0005)


def test_every_normal_number_is_far_from_where_rounding_turns():
    """So that no other implementation of the inverse, a few units in the last place away, gives
    another float32."""
    # an eighth of all quantiles
    quantile = (torch.arange(1 << 20, dtype=torch.float64) * 8 + 0.5) * 2.0**-24
    exact = torch.special.ndtri(quantile)
    for nudged in (exact * (1 - 2.0**-49), exact * (1 + 2.0**-49)):  # by 8 to 16 units
        assert torch.equal(nudged.float(), exact.float())


def test_a_value_depends_on_the_name_and_the_seed():
    a, b = (normal_(nn.Parameter(torch.empty(8)), 1.0) for _ in range(2))
    redraw([("a", a), ("b", b)], 0)
    first = a.detach().clone()
    assert not torch.equal(a, b)
    redraw([("a", a), ("a", b)], 0)
    assert torch.equal(a, first)
    assert torch.equal(a, b)
    redraw([("a", a)], 1)
    assert not torch.equal(a, first)


def test_a_parameter_without_a_distribution_is_left_alone():
    parameter = nn.Parameter(torch.arange(3.0))
    redraw([("a", parameter)], 0)
    assert parameter.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", POSITIONS)
def test_every_parameter_of_a_scheme_follows_from_the_seed_alone(name):
    """Nothing is left of what torch's generator drew, which differs between processors."""

    def parameters(seed: int) -> dict[str, torch.Tensor]:
        def position(shape: object) -> nn.Module:
            torch.manual_seed(seed)
            return preset("position", name)(shape)

        torch.manual_seed(0)
        return build(SIZE, position, VOCABULARY).state_dict()

    assert all(
        torch.equal(a, b)
        for a, b in zip(parameters(1).values(), parameters(2).values(), strict=True)
    )
