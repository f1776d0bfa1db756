"""Convolutions that change vectors at places of a layer: facts beyond the general laws and the
loops of `test_convs`."""

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from model.conv_options import silent
from relpos.model.conv import Canon, Inkling
from schemes import SHAPE, adds_nothing, batch, filled, model_of, near, numbers


def test_inkling_reads_the_left_side_as_in_transformers(monkeypatch):
    """Its four taps are the token itself and three before it; it computes in float32, for which
    float64 is put here."""
    from transformers.models.inkling.modeling_inkling import InklingShortConvolution

    monkeypatch.setattr(Tensor, "float", Tensor.double)
    ours = silent(partial(Inkling, k=3, right=False))
    theirs = InklingShortConvolution(SHAPE.hidden, 4, 0, 0).double()
    with torch.no_grad():
        ours.convolutions["k"].weight[:] = theirs.conv1d.weight[:, 0]
    k = numbers(2, 9, SHAPE.hidden)
    assert_close(ours.act("k", k, k, None), theirs(k), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("conv", ["canon", "inkling"])
def test_weights_of_zero_change_nothing(conv):
    model, plain = (model_of("fixed", name, kernel="eager") for name in (conv, "none"))
    for layer in model.encoder.layers:
        filled(layer.attention.conv, 0.0)
    adds_nothing(model, plain, ".conv.")


@pytest.mark.parametrize("place", ["input", "inner"])
def test_the_weight_after_the_middle_one_reads_the_next_token(place):
    conv = silent(partial(Canon, k=1))
    with torch.no_grad():
        conv.convolutions[place].weight[:, 2] = 1.0
    width = conv.convolutions[place].weight.shape[0]
    y = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)[None, :, None].expand(1, 3, width)
    assert conv.act(place, y, y, None)[0, :, 0].tolist() == [11.0, 110.0, 100.0]
    assert conv.act(place, y, y, torch.tensor([[True, True, False]]))[0, :2, 0].tolist() == [
        11.0,
        10.0,
    ]


@pytest.mark.parametrize("places", ["A", "B", "C", "D", "ABCD"])
def test_outputs_of_convolutions_at_some_tokens_are_those_among_all(places):
    """After the last layer's attention only these are computed, unless their neighbours are read
    there."""
    model = model_of("composite", "canon", conv_keys={"places": places}).eval()
    ids, mask = batch()
    at = torch.tensor([1, 4, 10])
    near(model.encoder(ids, mask, at=at), model.encoder(ids, mask).flatten(0, 1)[at])
