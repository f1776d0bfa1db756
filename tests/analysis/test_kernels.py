"""The learned convolution kernels and their figure."""

import numpy as np
import pytest
import torch

from relpos.analysis.kernels import draw_kernels, learned_kernels
from relpos.model.position import Merge
from schemes import SHAPE, model_of, network, preset


def test_a_fixed_kernel_is_its_own_picture():
    model = model_of("fixed", k=3)
    kernels = learned_kernels(model)
    assert list(kernels) == list(range(1, SHAPE.layers + 1))
    torch.testing.assert_close(
        torch.stack(list(kernels.values())).double(),
        model.encoder.position.beta.detach(),
        atol=1e-6,
        rtol=1e-6,
    )


def test_a_key_kernel_is_drawn_at_the_offset_of_the_attended_token():
    model = model_of("key")
    with torch.no_grad():
        model.encoder.position.key.zero_()
        model.encoder.position.key[..., -1] = 1.0  # i − j = +2
    kernel = learned_kernels(model)[1]
    assert kernel[:, 1:].abs().max() == 0
    assert kernel[:, 0].abs().min() > 0  # j − i = −2


@pytest.mark.parametrize("scheme", ["fixed", "composite", "key"])
def test_the_figure_is_written(scheme, tmp_path):
    model = model_of(scheme)
    model.train()
    assert draw_kernels(model, tmp_path / "kernels.png")
    assert (tmp_path / "kernels.png").stat().st_size > 1000
    assert model.training
    assert "terms" not in vars(model.encoder.position)


@pytest.mark.parametrize("scheme", ["none", "absolute"])
def test_without_kernels_there_is_no_figure(scheme, tmp_path):
    assert not draw_kernels(model_of(scheme), tmp_path / "kernels.png")
    assert not list(tmp_path.iterdir())


def test_offsets_that_are_hidden_have_no_value():
    left, right = learned_kernels(model_of("dual_triangle"), k=2)[1].tolist()
    assert left[:3] == right[2:] == [0.0, 0.0, 0.0]
    assert not np.isfinite([*left[3:], *right[:2]]).any()


def test_offsets_behind_a_causal_token_have_no_value():
    model = model_of("fixed", k=3)
    whole = learned_kernels(model)[1]
    model.encoder.causal = True
    kernel = learned_kernels(model)[1]
    assert torch.equal(kernel[:, :4], whole[:, :4])
    assert kernel[:, 4:].isnan().all()


def test_offsets_out_of_reach_have_no_value():
    parts = [preset("position", "fixed", k=3), preset("position", "window", reach=2)]
    kernel = learned_kernels(network(lambda shape: Merge(shape, parts)), k=3)[1]
    assert kernel[0].isnan().tolist() == [True, *[False] * 5, True]


def test_sums_of_gates_are_seen_between_two_tokens():
    parts = [preset("position", "absolute"), preset("position", "fox")]
    expected = -np.log(2) * torch.arange(-3, 4).abs()
    for position in (parts[1], lambda shape: Merge(shape, parts)):
        model = network(position, spread=0.0)
        with torch.no_grad():
            # each gate is ½
            [gates] = [value for name, value in model.named_parameters() if name.endswith("gates")]
            gates.zero_()
        torch.testing.assert_close(learned_kernels(model, k=3)[1][0], expected, atol=1e-5, rtol=0)
