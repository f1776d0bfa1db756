"""Another scheme in each layer: facts beyond the general laws."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from relpos.errors import RelposError
from relpos.model.attention import LayerCall
from relpos.model.position import (
    T5,
    Absolute,
    Dynamic,
    Fixed,
    Inkling,
    Layers,
    Merge,
    NoPosition,
    Position,
    Rope,
    SynthesizerRandom,
    Window,
)
from relpos.model.tokens import Tokens
from schemes import SHAPE, check_loops, is_counted, model_of, network

MIXED: list[Position] = [
    partial(Merge, parts=[partial(Rope, base=160.0, fraction=0.5), partial(Window, reach=2)]),
    NoPosition,
    partial(Dynamic, k=2, outside="zero", value=True),
    partial(Merge, parts=[partial(Inkling, rank=2), partial(Fixed, k=1), Absolute]),
]


@pytest.mark.parametrize("cycle", [True, False])
@pytest.mark.parametrize("layers", [3, 6])
@pytest.mark.parametrize("shared", [True, False])
def test_outputs_and_gradients_of_layers_equal_the_loops(cycle, layers, shared):
    position = partial(Layers, layers=MIXED, cycle=cycle)
    check_loops(network(position, layers=layers, share_layers=shared).eval().encoder)


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("cycle", [True, False])
def test_a_scheme_has_parameters_for_its_own_layers_alone(layers, cycle):
    shape = replace(SHAPE, layers=layers)
    scheme = Layers(shape, [Fixed, T5, partial(Dynamic, k=2)], cycle)
    assert is_counted(scheme, shape)
    assert all(part.count(part.shape) > 0 for part in scheme.parts)
    assert sum(part.shape.layers for part in scheme.parts) == layers


def test_what_the_network_asks_of_a_scheme_holds_for_the_list():
    shape = replace(SHAPE, layers=4)
    limited = Layers(shape, [Rope, Absolute])
    assert limited.max_length == SHAPE.max_positions
    assert limited.acts_on_scores
    assert limited.embed(3) is not None
    assert not Layers(shape, [Absolute, NoPosition]).acts_on_scores


def test_schemes_with_another_scale_and_an_empty_list_are_refused():
    with pytest.raises(
        RelposError, match=r"^Layers: Rope multiplies q·k by 0.5, SynthesizerRandom by nothing"
    ):
        Layers(SHAPE, [Rope, partial(SynthesizerRandom, mixture=False)])
    with pytest.raises(RelposError, match="^Layers needs at least one scheme$"):
        Layers(SHAPE, [])


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ["modernbert", "mmbert"])
def test_attention_is_that_of_modernbert(name, layer, monkeypatch):
    """Its rotation pairs channels m and m + head_dim/2, ours neighbours: the rows of the maps to q
    and k are put in that order. It computes angles and rotates in float32, for which float64 is put
    here."""
    from transformers import ModernBertConfig
    from transformers.masking_utils import (
        create_bidirectional_mask,
        create_bidirectional_sliding_window_mask,
    )
    from transformers.models.modernbert.modeling_modernbert import (
        ModernBertAttention,
        ModernBertRotaryEmbedding,
    )

    heads, width, n = 2, 8, 150
    config = ModernBertConfig(
        hidden_size=heads * width, num_attention_heads=heads, num_hidden_layers=6, attn_implementation="sdpa",
        **({"global_rope_theta": 10_000.0} if name == "mmbert" else {}),
    )  # fmt: skip
    monkeypatch.setattr(torch, "float", torch.float64)
    monkeypatch.setattr(Tensor, "float", Tensor.double)
    torch.manual_seed(1)
    theirs, x = (
        ModernBertAttention(config, layer).double().eval(),
        torch.randn(2, n, heads * width, dtype=torch.float64),
    )
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_()
    kind = config.layer_types[layer]
    turns = ModernBertRotaryEmbedding(config)(x, torch.arange(n)[None], kind)
    masked = (
        create_bidirectional_sliding_window_mask
        if kind == "sliding_attention"
        else create_bidirectional_mask
    )
    real = torch.ones(2, n, dtype=torch.bool)
    real[1, -20:] = False
    expected = theirs(x, turns, masked(config=config, inputs_embeds=x, attention_mask=real.long()))[
        0
    ]

    encoder = (
        model_of(name, layers=6, hidden=heads * width, heads=heads, max_positions=n).eval().encoder
    )
    ours = encoder.layers[layer].attention
    neighbours = torch.arange(width).view(2, -1).t().flatten()  # 0, 4, 1, 5, …
    rows = torch.arange(2 * heads * width).view(-1, width)[:, neighbours].flatten()
    with torch.no_grad():
        ours.project.weight.copy_(
            torch.cat((theirs.Wqkv.weight[rows], theirs.Wqkv.weight[2 * heads * width :]))
        )
        ours.output.weight.copy_(theirs.Wo.weight)
        for part in (ours.project, ours.output):
            part.bias.zero_()
    held = Tokens(2, n)
    global_layer, output = (
        ours(x, LayerCall(number, encoder.position, encoder.position.prepare(n), real, held, held))
        for number in (0, layer)
    )
    torch.testing.assert_close(output[real], expected[real], atol=1e-10, rtol=1e-10)
    assert (global_layer[real] - expected[real]).abs().max().item() > 1e-3 or layer % 3 == 0
