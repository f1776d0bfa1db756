"""The learned convolution kernels and their figure."""

from pathlib import Path

import pytest
import torch

from relpos.analysis.kernels import draw_kernels, learned_kernels
from schemes import SHAPE, model_of


def test_a_fixed_kernel_is_its_own_picture() -> None:
    model = model_of("fixed", k=3)
    kernels = learned_kernels(model)
    assert len(kernels) == SHAPE.layers
    torch.testing.assert_close(torch.stack(kernels).double(), model.encoder.position.beta.detach(), atol=1e-6, rtol=1e-6)


def test_a_key_kernel_is_drawn_at_the_offset_of_the_attended_token() -> None:
    model = model_of("key")
    with torch.no_grad():
        model.encoder.position.key.zero_()
        model.encoder.position.key[..., -1] = 1.0  # i − j = +2
    kernel = learned_kernels(model)[0]
    assert kernel[:, 1:].abs().max() == 0
    assert kernel[:, 0].abs().min() > 0  # j − i = −2


@pytest.mark.parametrize("scheme", ["fixed", "composite", "key"])
def test_the_figure_is_written(scheme: str, tmp_path: Path) -> None:
    model = model_of(scheme)
    model.train()
    assert draw_kernels(model, tmp_path / "kernels.png")
    assert (tmp_path / "kernels.png").stat().st_size > 1000
    assert model.training
    assert "terms" not in vars(model.encoder.position)


@pytest.mark.parametrize("scheme", ["none", "absolute"])
def test_without_kernels_there_is_no_figure(scheme: str, tmp_path: Path) -> None:
    assert not draw_kernels(model_of(scheme), tmp_path / "kernels.png")
    assert not list(tmp_path.iterdir())
