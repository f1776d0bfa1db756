"""TISA: facts beyond the general laws."""

import pytest
import torch

from relpos.model.position import Tisa
from relpos.model.shape import Shape
from schemes import SHAPE, adds_nothing, batch, model_of


def test_the_sign_of_a_sharpness_says_nothing():
    scheme = Tisa(SHAPE, kernels=1)
    before = scheme.prepare(9)[0].clone()
    with torch.no_grad():
        scheme.sharpness.neg_()
    assert torch.equal(scheme.prepare(9)[0], before)


def test_without_kernels_nothing_is_added():
    model = model_of("tisa", kernels=0)
    assert model.encoder.position.count(SHAPE) == 0
    adds_nothing(model, model_of("none"), ".position.")


def test_a_step_of_training_goes_through_without_kernels():
    model = model_of("tisa", kernels=0).train()
    ids, mask = batch()
    model.loss(ids, ids, mask).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    torch.optim.AdamW(model.parameters(), fused=True).step()


def test_initial_values_are_those_of_the_released_module():
    torch.manual_seed(0)
    scheme = Tisa(Shape(16, 4, 64, 64, 16, 8), kernels=16)
    for parameter, mean, std in (
        (scheme.amplitude, 0.1, 0.01),
        (scheme.sharpness, 0.1, 0.01),
        (scheme.centre, 0.0, 5.0),
    ):
        assert parameter.mean().item() == pytest.approx(mean, abs=0.1 * std)
        assert parameter.std().item() == pytest.approx(std, rel=0.05)
