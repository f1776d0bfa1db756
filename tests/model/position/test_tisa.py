"""TISA: facts beyond the general laws."""

import pytest
import torch

from relpos.model.position import Fixed, Tisa
from relpos.model.shape import Shape
from schemes import SHAPE, batch, model_of


def test_the_sign_of_a_sharpness_says_nothing() -> None:
    scheme = Tisa(SHAPE, kernels=1)
    before = scheme.prepare(9)[0].clone()
    with torch.no_grad():
        scheme.sharpness.neg_()
    assert torch.equal(scheme.prepare(9)[0], before)


def test_sampled_at_whole_numbers_it_is_a_wide_fixed_kernel() -> None:
    n = 7
    torch.manual_seed(0)
    scheme, fixed = Tisa(SHAPE).double(), Fixed(SHAPE, k=n - 1).double()
    a, b, c = (x.detach() for x in (scheme.amplitude, scheme.sharpness, scheme.centre))
    with torch.no_grad():
        for o in range(1 - n, n):
            fixed.beta[:, :, o + n - 1] = (a * torch.exp(-b.abs() * (c - o) ** 2)).sum(-1)
    for layer in range(SHAPE.layers):
        torch.testing.assert_close(scheme.prepare(n)[layer], fixed.prepare(n)[layer])


def test_layers_and_heads_have_kernels_of_their_own() -> None:
    torch.manual_seed(0)
    offsets = torch.stack(Tisa(SHAPE).prepare(5)).flatten(0, 1)
    assert len({tuple(row.tolist()) for row in offsets}) == SHAPE.layers * SHAPE.heads


def test_a_longer_sequence_continues_the_same_function() -> None:
    torch.manual_seed(0)
    scheme = Tisa(SHAPE)
    # Not the same bits: a processor computes exp by other instructions at the end of a row than inside it.
    torch.testing.assert_close(scheme.prepare(40)[1][:, 20:-20], scheme.prepare(20)[1])


def test_without_kernels_nothing_is_added() -> None:
    model, plain = model_of("tisa", kernels=0).eval(), model_of("none").eval()
    assert model.encoder.position.count(SHAPE) == 0
    plain.load_state_dict({key: x for key, x in model.state_dict().items() if ".position." not in key})
    ids, mask = batch()
    assert torch.equal(model(ids, mask), plain(ids, mask))


def test_a_step_of_training_goes_through_without_kernels() -> None:
    model = model_of("tisa", kernels=0).train()
    ids, mask = batch()
    model.loss(ids, ids, mask).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    torch.optim.AdamW(model.parameters(), fused=True).step()


def test_initial_values_are_those_of_the_released_module() -> None:
    torch.manual_seed(0)
    scheme = Tisa(Shape(16, 4, 64, 64, 16, 8), kernels=16)
    for parameter, mean, std in ((scheme.amplitude, 0.1, 0.01), (scheme.sharpness, 0.1, 0.01), (scheme.centre, 0.0, 5.0)):
        assert parameter.mean().item() == pytest.approx(mean, abs=0.1 * std)
        assert parameter.std().item() == pytest.approx(std, rel=0.05)
