"""A model whose weights are bfloat16 is the same model, rounded: arithmetic on positions is finer
than its weights."""

import copy
from typing import Any

import pytest
import torch

from schemes import POSITIONS, SHAPE, VOCABULARY, given, model_of, preset, sampled

SIZE = {
    "layers": 1,
    "hidden": 48,
    "embedding": 32,
    "heads": 6,
    "ffn": 48,
    "max_positions": 256,
}  # six slopes of ALiBi are not exact


@pytest.mark.parametrize("name", sampled(POSITIONS))
def test_rounded_weights_change_a_scheme_by_rounding_alone(name):
    rounded = model_of(name, spread=0.05, **SIZE).float().bfloat16().eval()
    same_weights = copy.deepcopy(rounded).float()
    ids = torch.randint(5, VOCABULARY, (2, 200), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, hidden = same_weights.encoder(ids), rounded.encoder(ids).float()
    assert float((hidden - expected).norm() / expected.norm()) < 0.01


@pytest.mark.parametrize("name", ["sinusoidal", "rope", "alibi", "tisa", "kerple", "kerple_power"])
def test_functions_of_the_place_are_computed_before_they_are_rounded(name):
    position = model_of(name, **SIZE).float().bfloat16().encoder.position
    exact = copy.deepcopy(position).double()
    with torch.no_grad():
        if name == "sinusoidal":
            values = [part.embed(200) for part in (position, exact)]
        else:
            values = [torch.as_tensor(part.prepare(200)[0]) for part in (position, exact)]
    torch.testing.assert_close(values[0].to(values[1].dtype), values[1], atol=1e-3, rtol=1e-4)


def filled(name: str, dtype: torch.dtype) -> tuple[Any, ...]:
    """What a scheme of such weights adds and turns, from vectors in the same format."""
    scheme, seen = preset("position", name)(SHAPE).to(dtype), given(SHAPE, 1, 5)
    q = torch.ones(1, SHAPE.heads, 5, SHAPE.head_dim, dtype=dtype)
    state = scheme.see(1, seen._replace(x=seen.x.to(dtype)), scheme.prepare(5))
    terms = scheme.terms(1, q, q, state)
    return terms.offset, terms.query, terms.dense, *scheme.turn(1, q, q, q, state)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "number"), [("alibi", 0), ("cope", 2), ("fox", 1), ("pope", 3)])
def test_biases_sums_and_lengths_are_no_coarser_than_float32(name, number, dtype):
    assert filled(name, dtype)[number].dtype == torch.promote_types(dtype, torch.float32)


def test_angles_are_float32_where_the_input_is_bfloat16():
    scheme, seen = preset("position", "selective_rope")(SHAPE).bfloat16(), given(SHAPE, 1, 7)
    assert scheme.see(1, seen._replace(x=seen.x.bfloat16()), None).dtype == torch.float32


def test_values_keep_their_format_where_queries_get_another():
    assert filled("pope", torch.bfloat16)[-1].dtype == torch.bfloat16
