"""A network of ours computes in `transformers` what it computes here, and comes back as it was."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from hosts import DEBERTA as DEBERTA_V2
from hosts import all_in_float64, batch, host, outputs, saved, transformers, waves
from relpos.errors import RelposError
from relpos.model.architecture import Architecture
from relpos.model.build import build
from relpos.pretrained.checkpoint import Checkpoint
from relpos.pretrained.export import to_huggingface
from relpos.ranges import parsed
from relpos.train.weights import opened

SIZE = {
    "layers": 2, "hidden": 16, "embedding": 8, "heads": 4, "ffn": 24, "max_positions": 20, "dropout": 0.1, "attention_dropout": 0.1,
    "activation": "gelu", "norm_eps": 1e-12, "token_types": 2, "share_layers": False,
}  # fmt: skip


def at(place: str, **arguments: Any) -> dict[str, Any]:
    return {"_target_": f"relpos.model.{place}", "_partial_": True, **arguments}


ABSOLUTE, NONE = at("position.Absolute"), at("conv.NoConv")
ROPE, WINDOW = at("position.Rope", base=10000.0), at("position.Window", reach=2)
LOCAL = at("position.Merge", parts=[ROPE | {"base": 30.0}, WINDOW])
LAYERS = at("position.Layers", layers=[ROPE | {"base": 500.0}, LOCAL, LOCAL])
MODERN = {
    "layers": 5,
    "embedding": 16,
    "token_types": 0,
    "norm_first": True,
    "glu": True,
    "bias": False,
}
DEBERTA = at("position.Deberta", buckets=8, max_distance=18)
CONVBERT = at("conv.ConvBert", width=5, kernel_from="query", edges="zero", bias=False)
POOLER = {"head": {"kind": "none", "pooler": True}}


def settings(
    position: Any = ABSOLUTE, conv: Any = NONE, more: Any = None, **size: Any
) -> dict[str, Any]:
    return {"size": SIZE | size, "position": position, "conv": conv, "vocabulary": 40} | (
        more or {}
    )


def drawn(described: dict[str, Any]) -> nn.Module:
    """The network of these settings in float64, every parameter drawn from N(0, 0.3²)."""
    torch.manual_seed(0)
    model: nn.Module = build(parsed(Architecture, described)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    return model


def exported(model: nn.Module, folder: Path) -> str:
    """Writes the two files and returns the class of `transformers` that opens them."""
    config, weights = to_huggingface(model)
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0} | config))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return str(config["architectures"][0])


NETWORKS = {
    "BertForMaskedLM": settings(embedding=16),
    "BertForSequenceClassification": settings(embedding=16, activation="silu", more={"outputs": 3}),
    "BertModel": settings(embedding=16, more=POOLER),
    "ElectraForMaskedLM": settings(),
    "ElectraForPreTraining": settings(more={"head": {"kind": "replaced_tokens"}}),
    "RoFormerForMaskedLM": settings(ROPE, activation="relu"),
    "ConvBertForMaskedLM": settings(conv=CONVBERT),
    "ModernBertForMaskedLM": settings(LAYERS, **MODERN),
    "DebertaV2ForMaskedLM": settings(DEBERTA, embedding=16, token_types=0, norm_eps=1e-7),
    "AlbertForMaskedLM": settings(share_layers=True, activation="gelu_new"),
    "AlbertForSequenceClassification": settings(share_layers=True, more={"outputs": 1}),
}

SINES = "roformer.encoder.embed_positions.weight"


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    all_in_float64(monkeypatch)


@pytest.mark.parametrize("name", NETWORKS)
def test_transformers_computes_the_same_as_ours(name, tmp_path):
    ours = drawn(NETWORKS[name])
    assert exported(ours, tmp_path) == name
    theirs, info = getattr(transformers, name).from_pretrained(
        tmp_path, dtype=torch.float64, output_loading_info=True
    )
    missing = info.pop("missing_keys")
    assert missing <= {SINES}
    assert not any(info.values()), info
    # transformers computes the sines, and rounds them to float32
    for sines in map(theirs.get_parameter, missing):
        table = waves(*sines.shape)
        torch.testing.assert_close(sines.data, table, rtol=0, atol=1e-7)
        sines.data = table
    ids, mask, types = batch(theirs.config, padded="ConvBert" not in name)
    expected, output = outputs(theirs.eval(), ids, mask, types)[0], ours(ids, mask, types)
    if output.shape[:2] == mask.shape:
        expected, output = expected[mask], output[mask]
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


NARROW = {"embedding_size": 8}
READ: dict[str, dict[str, Any]] = {
    "BertForMaskedLM": {},
    "BertForSequenceClassification": {"num_labels": 3},
    "AlbertForMaskedLM": NARROW,
    "AlbertForSequenceClassification": NARROW | {"num_labels": 3},
    "ElectraForMaskedLM": NARROW,
    "ElectraForPreTraining": NARROW,
    "RoFormerForMaskedLM": NARROW,
    "ConvBertForMaskedLM": NARROW,
    "DebertaV2ForMaskedLM": DEBERTA_V2
    | {"pos_att_type": ["c2p", "p2c"], "max_relative_positions": 20},
    "ModernBertForMaskedLM": {
        "local_attention": 4,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
    },
}


@pytest.mark.parametrize("kind", READ)
def test_a_checkpoint_is_exported_as_it_was_read(kind, tmp_path):
    checkpoint = Checkpoint(saved(host(kind, **READ[kind]), tmp_path))
    config, weights = to_huggingface(opened(tmp_path))
    assert config["architectures"] == [kind]
    assert {key: checkpoint.config.get(key, value) for key, value in config.items()} == config
    assert weights.keys() <= checkpoint.tensors.keys()
    for name, tensor in weights.items():
        torch.testing.assert_close(tensor, checkpoint.tensors[name], rtol=0, atol=0, msg=name)


def test_untied_heads_are_exported_with_their_table(tmp_path):
    checkpoint = Checkpoint(saved(host("BertForMaskedLM", tie_word_embeddings=False), tmp_path))
    config, weights = to_huggingface(opened(tmp_path))
    assert config["tie_word_embeddings"] is False
    assert weights.keys() == checkpoint.tensors.keys()


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        (
            settings(at("position.Alibi")),
            "position=Alibi, conv=NoConv: transformers has no encoder",
        ),
        (
            settings(conv=at("conv.LightConv")),
            "conv=LightConv: transformers has no encoder with this",
        ),
        (settings(ROPE, share_layers=True), "in transformers ALBERT alone shares its layers"),
        (
            settings(embedding=16, share_layers=True),
            "ALBERT alone shares its layers, and widens embeddings",
        ),
        (
            settings(conv=CONVBERT | {"edges": "renormalise"}),
            "convbert has conv.edges=zero, this network conv.edges=renormalise",
        ),
        (
            settings(conv=CONVBERT | {"kernel_from": "key"}),
            "convbert has conv.kernel_from=query, this network conv.kernel_from=key",
        ),
        (
            settings(ROPE | {"base": 500.0}),
            "roformer has position.base=10000.0, this network position.base=500.0",
        ),
        (
            settings(ROPE | {"fraction": 0.5}),
            "roformer has position.fraction=1.0, this network position.fraction=0.5",
        ),
        (
            settings(LAYERS),
            "modernbert has one hidden_size, this network size.embedding=8 and another size.hidden",
        ),
        (
            settings(LAYERS, **MODERN | {"bias": True}),
            "modernbert has size.bias=False, this network size.bias=True",
        ),
        (
            settings(LAYERS | {"layers": [ROPE, LOCAL]}, **MODERN),
            r"modernbert has len\(position.layers\)=3, this network len\(position.layers\)=2",
        ),
        (
            settings(LAYERS | {"layers": [ROPE, LOCAL, ROPE]}, **MODERN),
            r"modernbert has position.layers.2._target_=relpos.model.position.Merge, this network position.layers.2._target_=",
        ),
        (
            settings(
                LAYERS | {"layers": [ROPE, LOCAL, LOCAL | {"parts": [ROPE, WINDOW]}]}, **MODERN
            ),
            "modernbert has one local_rope_theta, this network "
            "position.layers.2.parts.0.base=10000.0 and another posi",
        ),
        (
            settings(activation="gelu_new"),
            "ElectraForMaskedLM has gelu in its head, this network gelu_new",
        ),
        (settings(glu=True), "electra has size.glu=False, this network size.glu=True"),
        (settings(more={"outputs": 2}), "ElectraModel has no head of the kind classifier"),
    ],
)
def test_networks_that_transformers_lacks_are_refused_by_name(described, reason):
    with pytest.raises(RelposError, match=reason):
        to_huggingface(SimpleNamespace(architecture=parsed(Architecture, described)))


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        (settings(more=POOLER), "electra has no pooler.bias, pooler.weight"),
        (
            settings(embedding=16, token_types=0),
            "bert has encoder.embedding.types.weight, this network has none",
        ),
    ],
)
def test_a_parameter_that_only_one_side_has_is_refused_by_name(described, reason):
    with pytest.raises(RelposError, match=reason):
        to_huggingface(drawn(described))
