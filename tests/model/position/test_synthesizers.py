"""Synthesizers: what they do without, their factors and their mixtures."""

import pytest
import torch
from torch import Tensor

from relpos.model.attention import Attention, LayerCall
from relpos.model.block import Block
from relpos.model.conv import NoConv
from relpos.model.kernels import eager
from relpos.model.position import Scheme
from relpos.model.tokens import Tokens
from schemes import SHAPE, check_loops, is_counted, model_of


def attention(scheme: Scheme, x: Tensor) -> Tensor:
    torch.manual_seed(0)
    module = Attention(
        SHAPE, scheme.projections, NoConv(SHAPE), Block(attention_dropout=0.0), "auto"
    ).double()
    tokens = Tokens(len(x), x.shape[1])
    return module(x, LayerCall(1, scheme, scheme.prepare(x.shape[1]), None, tokens, tokens))


@pytest.mark.parametrize(("name", "maps"), [("synthesizer_random", 1), ("synthesizer_dense", 2)])
def test_projections_that_nothing_reads_do_not_exist(name, maps):
    for mixture, number in ((False, maps), (True, 3)):
        layer = model_of(name, mixture=mixture).encoder.layers[0]
        assert layer.attention.project.weight.shape[0] == number * SHAPE.hidden  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["synthesizer_random", "synthesizer_dense"])
def test_a_mixture_starts_half_and_half(name):
    scheme = model_of(name, mixture=True, spread=0.0).encoder.position
    alone = model_of(name, spread=0.0).encoder.position
    alone.load_state_dict({key: x for key, x in scheme.state_dict().items() if key != "alpha"})
    q, k, v = torch.randn(3, 2, SHAPE.heads, 9, SHAPE.head_dim, dtype=torch.float64)
    state = scheme.prepare(9)
    turned = scheme.turn(1, q, k, v, state)
    scores = eager.scores(turned[0] * scheme.scale, turned[1], scheme.terms(1, q, k, state), v)
    dense = alone.terms(1, q, k, alone.prepare(9)).dense
    torch.testing.assert_close(scores, (q @ k.transpose(2, 3) + dense) / 2)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("synthesizer_random", {"rank": 3}),
        ("synthesizer_random", {"rank": 3, "mixture": True}),
        ("synthesizer_dense", {"factor": 4}),
        ("synthesizer_dense", {"factor": 4, "mixture": True}),
    ],
)
def test_factors_equal_the_loops(name, keys):
    model = model_of(name, **keys).eval()
    check_loops(model.encoder, ids=[7, 9, 5, 22, 0, 12, 8], real=[True] * 7)
    assert is_counted(model.encoder.position)
