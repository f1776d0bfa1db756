"""Each property is found where it is and missed where it is not."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from relpos.analysis import properties as measured
from relpos.model.position import Scheme, Terms
from relpos.model.shape import Shape
from schemes import SIZE, VOCABULARY, build, model_of

HAS = {
    "inductive": (
        {"tisa", "rope", "floater", "alibi", "sinusoidal", "fire"},
        {
            "absolute",
            "tupe",
            "huang4",
            "synthesizer_random",
            "absolute_tisa",
            "t5",
            "shaw",
            "dynamic",
            "deberta",
            "window",
        },
    ),
    "data-driven": ({"tisa", "absolute", "floater", "kerple"}, {"sinusoidal", "rope", "alibi"}),
    "translation-invariant": (
        {"tisa", "rope", "composite_key", "huang4"},
        {"absolute", "sinusoidal", "tupe", "floater"},
    ),
    "parallelisable": ({"tisa", "rope", "tupe"}, {"floater"}),
    "interpretable": (
        {"tisa", "t5", "alibi", "fixed"},
        {"dynamic", "rope", "tupe", "synthesizer_random", "absolute_tisa"},
    ),
}


def properties_of(model: Any, own: int = 3, table: int = 4) -> dict[str, bool]:
    return measured.properties(
        model, lambda network: list(network.encoder.position.parameters()), own, table
    )


@pytest.mark.parametrize(
    "name", sorted(set.union(*(names for sides in HAS.values() for names in sides)))
)
def test_properties_of_known_schemes(name):
    properties = properties_of(model_of(name))
    for key, (having, lacking) in HAS.items():
        if name in having | lacking:
            assert properties[key] == (name in having), key


class Stepwise(Scheme):
    """β made one offset after the other."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.decay = nn.Parameter(torch.full((shape.heads,), 0.9))

    def prepare(self, n: int) -> Tensor:
        falling = [torch.ones_like(self.decay)]
        for _ in range(n - 1):
            falling.append(falling[-1] * self.decay)
        return torch.stack([*falling[:0:-1], *falling], 1)

    def terms(self, layer: int, q: Tensor, k: Tensor, state: Tensor) -> Terms:
        return Terms(offset=state)


class AllButOnce(Scheme):
    """A curve, but for one entry of the matrix."""

    def terms(self, layer: int, q: Tensor, k: Tensor, state: Any) -> Terms:
        n = q.shape[2]
        dense = torch.zeros(1, self.shape.heads, n, n, dtype=q.dtype)
        dense[..., 0, 1] = 1.0
        return Terms(dense=dense)


def test_a_loop_over_positions_is_not_parallel():
    properties = properties_of(build(SIZE, Stepwise, VOCABULARY).double())
    assert not properties["parallelisable"]
    assert properties["interpretable"]


def test_one_odd_entry_is_no_curve_and_not_translation_invariant():
    properties = properties_of(build(SIZE, AllButOnce, VOCABULARY).double())
    assert not properties["interpretable"]
    assert not properties["translation-invariant"]
    assert properties["parallelisable"]


def test_parameters_are_compared_with_those_of_the_table():
    assert properties_of(model_of("tisa"), 3, 4)["parameter-efficient"]
    assert not properties_of(model_of("tisa"), 4, 4)["parameter-efficient"]
