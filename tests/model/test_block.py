"""The choices of a layer: where norms stand and which, gated feed-forward networks, biases, norms
of queries and keys."""

import warnings
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import reference
import schemes
from relpos.model.build import count
from relpos.model.conv import NoConv
from relpos.model.dropout import seed_dropout
from relpos.model.position import Composite, NoPosition, Rope
from schemes import MODERN, SIZE, VOCABULARY, batch, build, gradients_of, preset, refusal

CHOICES: dict[str, dict[str, Any]] = {
    **{f"{key}={value}": {key: value} for key, value in MODERN.items()},
    "activation=silu": {"activation": "silu"},
    "modern": MODERN,
    "modern, shared": MODERN | {"share_layers": True},
    "modern, causal": MODERN | {"attention": "causal"},
    "modern, one width": MODERN | {"embedding": SIZE["hidden"]},
    "swiglu, layer norms": MODERN | {"norm": "layer", "activation": "silu"},
}
EVERY_CHOICE = pytest.mark.parametrize("change", CHOICES.values(), ids=CHOICES)
PARTS = {"position": ["composite", "xl", "rope"], "conv": ["canon", "qkv", "convbert", "lightconv"]}
close = partial(assert_close, atol=1e-10, rtol=1e-10)
network = partial(schemes.network, spread=0.3)


def agrees_with_loops(model: Any) -> None:
    ids, mask = batch()
    model.eval()
    hidden = model.encoder(ids, mask)
    for row in range(len(ids)):
        real = mask[row].bool().tolist()
        expected = reference.encode(model.encoder, ids[row].tolist(), real, [0] * len(real))
        close(hidden[row][real], expected[real])
    close(model(ids, mask)[0, 1], reference.logits(model, hidden[0, 1]))


@EVERY_CHOICE
def test_a_network_is_its_formula(change):
    agrees_with_loops(network(Rope, **change))


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, names in PARTS.items() for name in names]
)
def test_schemes_and_convolutions_equal_the_loops_in_modern_layers(group, name):
    conv = preset("conv", name) if group == "conv" else NoConv
    scheme = preset("position", name) if group == "position" else NoPosition
    agrees_with_loops(network(scheme, conv, **MODERN))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_is_that_of_torch(norm_first, bias):
    model = network(NoPosition, norm_first=norm_first, bias=bias, layers=1).eval()
    layer = model.encoder.layers[0]
    sizes = (SIZE[name] for name in ("hidden", "heads", "ffn"))
    choices = (0.0, "gelu", SIZE["norm_eps"], True, norm_first, bias)
    theirs = nn.TransformerEncoderLayer(*sizes, *choices, dtype=torch.float64)
    pairs = [
        ("self_attn.in_proj_", layer.attention.project),
        ("self_attn.out_proj.", layer.attention.output),
        ("norm1.", layer.attention_norm),
        ("linear1.", layer.widen),
        ("linear2.", layer.narrow),
        ("norm2.", layer.ffn_norm),
    ]
    theirs.load_state_dict(
        {name + kind: value for name, part in pairs for kind, value in part.state_dict().items()}
    )
    ids, mask = batch()
    before, after = model.encoder(ids, mask, hidden_states=True)
    expected = model.encoder.norm(theirs(before, src_key_padding_mask=mask == 0))
    close(after[mask.bool()], expected[mask.bool()])


@EVERY_CHOICE
def test_training_through_the_fastest_passes_is_that_of_plain_torch(change):
    results = []
    for kernel in ("auto", "eager"):
        model = network(Composite, kernel=kernel, **change).float().train()
        seed_dropout(model, 5)
        ids, mask = batch()
        labels = ids.masked_fill(torch.arange(ids.shape[1]) % 3 > 0, -100)
        loss = model.loss(ids, labels, mask)
        loss.backward()
        results.append([loss, *gradients_of(model)])
    assert_close(*results, atol=2e-5, rtol=2e-4)


@EVERY_CHOICE
def test_parameters_are_counted_by_formula(change):
    model = network(NoPosition, **change)
    plain = {"norm": "layer", "norm_first": False, "glu": False, "qk_norm": False, "bias": True}
    size = SIZE | plain | change
    h, f, e = (size[name] for name in ("hidden", "ffn", "embedding"))
    layers = 1 if size["share_layers"] else size["layers"]
    shift = int(size["bias"])
    norm = 2 if size["norm"] == "layer" and shift else 1
    wide = 2 * f if size["glu"] else f
    layer = (
        (h + shift) * 3 * h + (h + shift) * h + (h + shift) * wide + (f + shift) * h + 2 * norm * h
    )
    layer += 2 * norm * (h // size["heads"]) if size["qk_norm"] else 0
    behind = norm * h if size["norm_first"] else 0
    saved = norm * h if size["norm_first"] and e == h and not size["share_layers"] else 0
    numbers = count(model)["parts"]
    assert numbers["layers"] == layers * layer + behind - saved
    assert numbers["embedding_norm"] == norm * e
    assert numbers["embedding_projection"] == (0 if e == h else (e + shift) * h)
    assert numbers["head"] == (h + shift) * e + norm * e + VOCABULARY


def test_without_biases_only_the_vocabulary_has_one():
    model = network(NoPosition, bias=False)
    assert [name for name, _ in model.named_parameters() if name.endswith("bias")] == ["head.bias"]


def test_bfloat16_is_float32_to_rounding():
    model = network(Composite, **MODERN).float().eval()
    ids, mask = batch()
    with warnings.catch_warnings(), torch.autocast("cpu", torch.bfloat16):
        warnings.simplefilter("error")  # torch says where it leaves its fused norm
        logits = model(ids, mask)
    assert ((logits - model(ids, mask)).norm() / model(ids, mask).norm()).item() < 0.05


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": "batch"}, "norm=batch: layer or rms is expected"),
        ({"glu": "gelu"}, "glu=gelu: true or false is expected"),
    ],
)
def test_impossible_choices_are_one_line(change, message):
    assert refusal(build, SIZE | change, NoPosition, VOCABULARY).startswith(message)
