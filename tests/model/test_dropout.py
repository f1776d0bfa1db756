"""Dropout masks follow from seed and place alone."""

import pytest
import torch
from torch import Tensor

from relpos.model.dropout import (
    Draw,
    Dropout,
    Examples,
    drop,
    dropped,
    keep_bits,
    rescale,
    seed_dropout,
    zero_dropped,
)
from relpos.model.heads import Classifier
from schemes import batch, model_of, near

CPU = torch.device("cpu")


def keep(
    shape: tuple[int, ...], p: float = 0.5, key: int = 5, examples: list[int] | None = None
) -> Tensor:
    named = None if examples is None else Examples(torch.tensor(examples))
    return dropped(shape, Draw(p, key, named), CPU) >= 0


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_rate_is_the_one_asked_for(p):
    assert abs(float(keep((1_000, 9, 111), p).double().mean()) - (1 - p)) < 0.002
    assert rescale(p) == pytest.approx(1 / (1 - p), rel=1e-3)


SHAPES = [(64, 128, 128), (16, 4, 128, 128)]
# The correlation of equal masks is 1; the standard deviation over a million elements is 0.001.
LEAST = 0.005


@pytest.mark.parametrize("shape", SHAPES)
def test_neighbours_along_every_axis_are_independent(shape):
    x = 2 * keep(shape).double() - 1
    for axis, size in enumerate(shape):
        for distance in (1, 2, 3, 4, 8, 32):
            if distance < size:
                near, far = (
                    x.narrow(axis, 0, size - distance),
                    x.narrow(axis, distance, size - distance),
                )
                assert abs(float((near * far).mean())) < LEAST
                # and so are four at a time
                assert abs(float((near * far)[..., 1:].mul((near * far)[..., :-1]).mean())) < LEAST


@pytest.mark.parametrize("shape", SHAPES)
def test_places_are_independent(shape):
    x, y = (2 * keep(shape, key=key).double() - 1 for key in (1, 2))
    assert abs(float((x * y).mean())) < LEAST
    assert abs(float((x * y)[:, 1:].mul((x * y)[:, :-1]).mean())) < LEAST


def test_each_lane_has_the_rate():
    x = keep((64, 128, 128), 0.1).double()
    assert all(abs(float(x[..., lane::4].mean()) - 0.9) < 0.003 for lane in range(4))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_every_number_format_has_the_same_mask(dtype):
    x = torch.full((7, 11), -3.0, dtype=dtype)
    expected = keep((7, 11), 0.3, 4)
    assert torch.equal(zero_dropped(x, keep_bits(x.shape, Draw(0.3, 4), CPU)) != 0, expected)
    assert torch.equal(drop(x, (0.3, 4)) != 0, expected)


def test_gradient_is_the_mask():
    x = torch.arange(30.0, dtype=torch.float64).view(5, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: drop(x, (0.4, 8)), x)


def test_padding_touches_nothing():
    assert torch.equal(keep((2, 40, 6))[:, :9], keep((2, 9, 6)))
    assert torch.equal(keep((2, 3, 40, 40))[..., :9, :9], keep((2, 3, 9, 9)))


def test_an_example_keeps_its_mask_in_any_batch():
    together = keep((3, 2, 9, 9), examples=[7, 11, 5])
    assert torch.equal(together[[2, 0]], keep((2, 2, 9, 9), examples=[5, 7]))
    assert not torch.equal(together[0], together[1])
    assert torch.equal(keep((3, 9, 6), examples=[7, 11, 5])[1:2], keep((1, 9, 6), examples=[11]))
    assert torch.equal(keep((3, 6), examples=[7, 11, 5])[1:2], keep((1, 6), examples=[11]))


def test_without_names_the_rows_are_the_examples():
    assert torch.equal(keep((3, 9, 6)), keep((3, 9, 6), examples=[0, 1, 2]))


def loss(seed: int | None, kernel: str = "auto") -> Tensor:
    model = model_of("composite", kernel=kernel, spread=0.1)
    model.train()
    if seed is not None:
        seed_dropout(model, seed)
    ids, mask = batch()
    return model.loss(ids, ids, mask)


def test_the_forward_pass_is_a_function_of_the_seed():
    a = loss(3)
    state = torch.get_rng_state()
    torch.manual_seed(99)
    assert torch.equal(a, loss(3))
    assert not torch.equal(a, loss(4))
    torch.set_rng_state(state)


def test_torchs_generator_is_left_alone():
    model = model_of("composite").train()
    seed_dropout(model, 1)
    state = torch.get_rng_state()
    model(batch()[0])
    assert torch.equal(state, torch.get_rng_state())


def test_every_kernel_drops_the_same():
    near(loss(3, "eager"), loss(3, "fused"))


def test_without_a_seed_torchs_generator_decides():
    place = Dropout(0.5)
    torch.manual_seed(0)
    a, b = place(torch.ones(2, 50)), place(torch.ones(2, 50))
    torch.manual_seed(0)
    assert torch.equal(a, place(torch.ones(2, 50)))
    assert not torch.equal(a, b)


def test_every_place_and_pass_has_its_own_mask():
    model = model_of("composite", share_layers=True).train()
    seed_dropout(model, 1)
    places = [part for part in model.modules() if isinstance(part, Dropout)]
    keys = {place.draw(number)[1] for place in places for number in range(3)}
    assert len(keys) == 3 * len(places) == 12


def test_seeding_reaches_the_classifier():
    classifier = Classifier(model_of("composite").encoder, 3).double().train()
    seed_dropout(classifier, 5)
    assert torch.equal(classifier(batch()[0]), classifier(batch()[0]))


def test_evaluation_drops_nothing():
    assert Dropout(0.5).eval()(torch.ones(2, 25)).min() == 1
