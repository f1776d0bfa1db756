"""A model whose weights are bfloat16 is the same model, rounded: arithmetic on positions is finer than its weights."""

import copy

import pytest
import torch

from schemes import POSITIONS, VOCABULARY, model_of

SIZE = {
    "layers": 1,
    "hidden": 48,
    "embedding": 32,
    "heads": 6,
    "ffn": 48,
    "max_positions": 256,
}  # six slopes of ALiBi are not exact


@pytest.mark.parametrize("name", POSITIONS)
def test_rounded_weights_change_a_scheme_by_rounding_alone(name: str) -> None:
    rounded = model_of(name, spread=0.05, **SIZE).float().bfloat16().eval()
    same_weights = copy.deepcopy(rounded).float()
    ids = torch.randint(5, VOCABULARY, (2, 200), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, found = same_weights.encoder(ids), rounded.encoder(ids).float()
    assert float((found - expected).norm() / expected.norm()) < 0.01


@pytest.mark.parametrize("name", ["sinusoidal", "rope", "alibi", "tisa", "kerple", "kerple_power"])
def test_numbers_that_are_functions_of_the_place_are_not_rounded_before(name: str) -> None:
    position = model_of(name, **SIZE).float().bfloat16().encoder.position
    exact = copy.deepcopy(position).double()
    with torch.no_grad():
        made = [part.embed(200) if name == "sinusoidal" else torch.as_tensor(part.prepare(200)[0]) for part in (position, exact)]
    torch.testing.assert_close(made[0].to(made[1].dtype), made[1], atol=1e-3, rtol=1e-4)
