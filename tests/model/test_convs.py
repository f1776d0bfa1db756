"""What the convolutions compute beyond the laws that hold for every preset: definitions, options,
directions, dropout, merges."""

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from model.conv_options import DEPTHWISE, EVERY_OPTION, silent
from relpos.model.conv import ConvBert, ConvQKV, DynamicConv, LightConv
from relpos.model.conv.window import depthwise_each
from relpos.model.dropout import seed_dropout
from relpos.model.position import NoPosition
from relpos.model.precision import autocast
from schemes import CONVS, SHAPE, batch, check_loops, check_padding, model_of, network, numbers

# Definition


@EVERY_OPTION
def test_outputs_and_gradients_of_convolutions_equal_the_loops(conv):
    """Two passes through one layer; the laws hold for layers of their own."""
    encoder = network(NoPosition, conv, share_layers=True).eval().encoder
    check_loops(
        encoder, ids=[7, 9, 5, 22, 0, 12], real=[True] * 4 + [False, True], types=[0, 0, 1, 1, 0, 1]
    )


@EVERY_OPTION
def test_padding_is_invisible_to_convolutions(conv):
    check_padding(network(NoPosition, conv).eval().encoder)


def test_a_row_of_nothing_but_padding_is_finite():
    for conv in CONVS:
        ids, mask = batch()
        mask[0] = 0
        hidden = model_of("none", conv)(ids, mask)
        hidden.sum().backward()
        assert hidden.isfinite().all()


# The two sums over a window


@pytest.mark.parametrize(("n", "k"), [(7, 2), (1, 3), (3, 4), (12, 0), (40, 8)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_depthwise_equals_conv1d_with_gradients(n, k, dtype):
    values = [
        x.to(dtype).requires_grad_()
        for x in (
            numbers(3, 6, n),
            numbers(6, 2 * k + 1),
            numbers(6),
            numbers(6, 2 * k + 1, seed=1),
        )
    ]
    x, first, bias, second = values
    plain = [
        functional.conv1d(x, weight[:, None], b, padding=k, groups=6).transpose(1, 2)
        for weight, b in ((first, bias), (second, None))
    ]
    ours = depthwise_each(x.transpose(1, 2), (first, bias), (second, None))
    assert_close(ours, plain)
    seeds = [numbers(3, n, 6, seed=seed).to(dtype) for seed in (5, 6)]
    grads = [torch.autograd.grad(y, values, seeds) for y in (ours, plain)]
    assert_close(*grads)


@pytest.mark.parametrize("conv", CONVS)
def test_bfloat16_is_close_to_float32(conv):
    model = model_of("none", conv, spread=0.05).float().eval()
    ids, mask = batch()
    expected = model(ids, mask)
    with autocast("bf16", "cpu"):
        logits = model(ids, mask)
    assert_close(logits.float(), expected, atol=0.05, rtol=0.05)


# Direction: the entry after the middle reads the next token


def shifted(v: Tensor, mask: Tensor) -> Tensor:
    """(B, n, C) → the next token's, 0 at the end and where that one is padding."""
    return functional.pad(v * mask[:, :, None], (0, 0, 0, 1))[:, 1:]


MASK = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])


def test_depthwise_reads_the_next_token():
    conv, v = silent(DEPTHWISE), numbers(2, 6, SHAPE.hidden)
    with torch.no_grad():
        conv.values.weight[:, 3] = 1
    assert torch.equal(conv.after(v, MASK), shifted(v, MASK))


def test_convolved_projections_read_the_next_token_in_the_first_heads():
    conv, x = silent(partial(ConvQKV, k=2)), numbers(2, 6, SHAPE.hidden)
    with torch.no_grad():
        for part in conv.convolutions.values():
            part.depthwise.weight[:, 3] = 1
            part.pointwise.weight[:, :4] = torch.eye(4)
        conv.linear.weight[:] = torch.eye(12)[:, :8]
    q = conv.project(x, MASK)["q"]
    assert torch.equal(q[:, :, :4], shifted(x, MASK)[:, :, :4])
    assert torch.equal(q[:, :, 4:], x[:, :, :4])


@pytest.mark.parametrize("kind", [LightConv, DynamicConv])
def test_weights_of_a_window_read_the_next_token(kind):
    conv = silent(partial(kind, k=2))
    v = numbers(2, SHAPE.heads, 6, SHAPE.head_dim).abs() + 0.5
    with torch.no_grad():
        for table in (
            [conv.weight[:, 0]] if kind is LightConv else conv.kernel.weight.unflatten(0, (-1, 5))
        ):
            table[..., 3] = 1000 if kind is LightConv else 0
            if kind is DynamicConv:
                table[3] = 1000
    y = conv.heads(numbers(2, 6, SHAPE.hidden), None, v, None, (0.0, 0))
    assert_close(y, functional.pad(v, (0, 0, 0, 1))[:, :, 1:])


@pytest.mark.parametrize("kernel_from", ["query", "key"])
def test_convbert_reads_the_next_token(kernel_from):
    conv = silent(partial(ConvBert, width=5, kernel_from=kernel_from, edges="zero"))
    x, v = numbers(2, 6, SHAPE.hidden), numbers(2, 1, 6, SHAPE.head_dim)
    with torch.no_grad():
        conv.kernel.bias[3] = 1000
    y = conv.heads(x, v, v, MASK, (0.0, 0))[:, 0]
    assert_close(y, shifted(v[:, 0], MASK))


# Together with the rest of the model


@pytest.mark.parametrize("conv", ["depthwise", "value"])
def test_rows_are_paired(conv):
    """A scheme leaves the convolution's start as it is, the convolution the scheme's, and both all
    else; layers differ."""

    def start(position: str, conv: str) -> dict[str, Tensor]:
        return model_of(position, conv, spread=0.0).state_dict()

    plain, both = start("none", conv), start("composite", conv)
    assert all(torch.equal(both[name], value) for name, value in plain.items())
    other = start("composite", "none")
    assert all(
        torch.equal(both[name], other[name])
        for name in both.keys() & other.keys()
        if both[name].shape == other[name].shape
    )
    first = next(name for name in plain if name.endswith(("values.weight", "depthwise.weight")))
    assert not torch.equal(plain[first], plain[first.replace("layers.0", "layers.1")])


@pytest.mark.parametrize("conv", ["lightconv", "dynamicconv", "convbert"])
def test_dropout_falls_on_the_weights_of_the_window(conv):
    model = model_of("none", conv, dropout=0.0, attention_dropout=0.5).train()
    ids, mask = batch()
    outputs = []
    for seed in (1, 1, 2):
        seed_dropout(model, seed)
        outputs.append(model.encoder(ids, mask))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])
    assert not torch.allclose(outputs[0], model.eval().encoder(ids, mask))
