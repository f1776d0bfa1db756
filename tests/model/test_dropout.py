"""Dropout masks follow from seed and place alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from relpos.model.dropout import Dropout, drop, keep_bits, keep_mask, rescale, seed_dropout, zero_dropped
from relpos.model.heads import Classifier
from schemes import batch, model_of

CPU = torch.device("cpu")


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_rate_is_the_one_asked_for(p: float) -> None:
    keep = keep_mask((1_000_003,), p, 5, CPU)
    assert abs(float(keep.double().mean()) - (1 - p)) < 0.002
    assert rescale(p) == pytest.approx(1 / (1 - p), rel=1e-3)


def test_each_lane_and_neighbour_is_independent() -> None:
    keep = keep_mask((1 << 20,), 0.5, 9, CPU).double() - 0.5
    for distance in (1, 2, 3, 4, 7, 4 * (1 << 16)):
        assert abs(float((keep[:-distance] * keep[distance:]).mean())) < 0.001  # 0.25 for equal masks, sd 0.00025
    for lane in range(4):
        assert abs(float(keep[lane::4].mean())) < 0.003


def test_masks_of_different_keys_are_unrelated() -> None:
    masks = torch.stack([keep_mask((200_000,), 0.5, key, CPU).double() - 0.5 for key in (0, 1, 2, 3, 1 << 40)])
    correlation = masks @ masks.T / 200_000 * 4
    assert float((correlation - torch.eye(5)).abs().max()) < 0.012


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_every_number_format_has_the_same_mask(dtype: torch.dtype) -> None:
    x = torch.full((7, 11), -3.0, dtype=dtype)
    expected = keep_mask(x.shape, 0.3, 4, CPU)
    assert torch.equal(zero_dropped(x, keep_bits(x.shape, 0.3, 4, CPU)) != 0, expected)
    assert torch.equal(drop(x, 0.3, 4) != 0, expected)


def test_gradient_is_the_mask() -> None:
    x = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: drop(x, 0.4, 8), x)


def test_a_longer_mask_begins_with_the_shorter_one() -> None:
    assert torch.equal(keep_mask((1000,), 0.2, 3, CPU), keep_mask((300_000,), 0.2, 3, CPU)[:1000])


def loss(seed: int | None, kernel: str = "auto") -> Tensor:
    model = model_of("composite", kernel=kernel, spread=0.1)
    model.train()
    if seed is not None:
        seed_dropout(model, seed)
    ids, mask = batch()
    return model.loss(ids, ids, mask)


def test_the_forward_pass_is_a_function_of_the_seed() -> None:
    a = loss(3)
    state = torch.get_rng_state()
    torch.manual_seed(99)
    assert torch.equal(a, loss(3))
    assert not torch.equal(a, loss(4))
    torch.set_rng_state(state)


def test_torchs_generator_is_left_alone() -> None:
    model = model_of("composite").train()
    seed_dropout(model, 1)
    state = torch.get_rng_state()
    model(batch()[0])
    assert torch.equal(state, torch.get_rng_state())


def test_every_kernel_drops_the_same() -> None:
    torch.testing.assert_close(loss(3, "eager"), loss(3, "fused"), atol=1e-11, rtol=1e-9)


def test_without_a_seed_torchs_generator_decides() -> None:
    place = Dropout(0.5)
    torch.manual_seed(0)
    a, b = place(torch.ones(100)), place(torch.ones(100))
    torch.manual_seed(0)
    assert torch.equal(a, place(torch.ones(100)))
    assert not torch.equal(a, b)


def test_every_place_and_pass_has_its_own_mask() -> None:
    model = model_of("composite", share_layers=True).train()
    seed_dropout(model, 1)
    places = [part for part in model.modules() if isinstance(part, Dropout)]
    keys = {place.draw(number)[1] for place in places for number in range(3)}
    assert len(keys) == 3 * len(places) == 12


def test_seeding_reaches_the_classifier() -> None:
    classifier = Classifier(model_of("composite").encoder, 3).double().train()
    seed_dropout(classifier, 5)
    assert torch.equal(classifier(batch()[0]), classifier(batch()[0]))


def test_evaluation_drops_nothing() -> None:
    assert Dropout(0.5).eval()(torch.ones(50)).min() == 1
