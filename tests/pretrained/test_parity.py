"""A published checkpoint computes here what it computes in `transformers`: hidden states, logits
and gradients."""

import json
from functools import partial
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import relpos
from hosts import (
    DEBERTA,
    all_in_float64,
    batch,
    hidden_states,
    host,
    outputs,
    saved,
    saved_gradients,
)
from relpos.pretrained.deberta import FAMILY as DEBERTA_V2
from relpos.pretrained.mapping import from_config, to_config
from relpos.pretrained.modernbert import FAMILY as MODERNBERT
from schemes import FULL, node

EMBEDDING = {"embedding_size": 8}
UNTIED, THREE = {"tie_word_embeddings": False}, {"num_labels": 3}
THETAS = {"full_attention": 500.0, "sliding_attention": 30.0}
MODERN = {
    "num_hidden_layers": 5,
    "local_attention": 4,
    "rope_parameters": {
        kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in THETAS.items()
    },
    "pad_token_id": 0,
}
UNPADDED = "convbert"  # begins the names of those that are compared without padding, see below
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", {}),
    "bert with an own decoder": ("BertForMaskedLM", UNTIED),
    "bert with relu": ("BertForMaskedLM", {"hidden_act": "relu"}),
    "bert classifier": ("BertForSequenceClassification", THREE),
    "albert": ("AlbertForMaskedLM", EMBEDDING),
    "albert with erf gelu": ("AlbertForMaskedLM", EMBEDDING | {"hidden_act": "gelu"}),
    "bert encoder": ("BertModel", {}),
    "roberta": ("RobertaForMaskedLM", {}),
    "roberta with an own decoder": ("RobertaForMaskedLM", UNTIED),
    "roberta with relu, and gelu in its head": (
        "RobertaForMaskedLM",
        {"hidden_act": "relu", "type_vocab_size": 1},
    ),
    "roberta classifier": ("RobertaForSequenceClassification", THREE),
    "xlm-r": ("XLMRobertaForMaskedLM", {"type_vocab_size": 1}),
    "camembert": ("CamembertForMaskedLM", {"type_vocab_size": 1}),
    "camembert classifier": ("CamembertForSequenceClassification", THREE),
    "data2vec-text": ("Data2VecTextForMaskedLM", {"type_vocab_size": 1, "pad_token_id": 1}),
    "data2vec-text classifier": (
        "Data2VecTextForSequenceClassification",
        THREE | {"pad_token_id": 1},
    ),
    "ernie": ("ErnieForMaskedLM", {}),
    "ernie with an own decoder": ("ErnieForMaskedLM", UNTIED),
    "ernie classifier": ("ErnieForSequenceClassification", THREE),
    "distilbert": ("DistilBertForMaskedLM", {"hidden_dim": 24}),
    "distilbert with an own decoder": (
        "DistilBertForMaskedLM",
        UNTIED | {"hidden_dim": 20},
    ),
    "distilbert encoder with relu": ("DistilBertModel", {"hidden_dim": 24, "activation": "relu"}),
    "mpnet": ("MPNetForMaskedLM", {}),
    "mpnet encoder": ("MPNetModel", {}),
    "mpnet classifier": ("MPNetForSequenceClassification", THREE),
    "electra generator": ("ElectraForMaskedLM", EMBEDDING),
    "electra generator of one width": (
        "ElectraForMaskedLM",
        UNTIED | {"embedding_size": 16},
    ),
    "electra discriminator": ("ElectraForPreTraining", EMBEDDING),
    "roformer": ("RoFormerForMaskedLM", EMBEDDING),
    "roformer that turns values": ("RoFormerForMaskedLM", EMBEDDING | {"rotary_value": True}),
    "convbert": ("ConvBertForMaskedLM", EMBEDDING),
    "convbert of one width": ("ConvBertForMaskedLM", {"embedding_size": 16, "conv_kernel_size": 5}),
    "modernbert": ("ModernBertForMaskedLM", MODERN),
    "modernbert with an own decoder": (
        "ModernBertForMaskedLM",
        MODERN | UNTIED | {"hidden_activation": "relu"},
    ),
    "modernbert encoder": ("ModernBertModel", MODERN),
    "deberta": ("DebertaV2ForMaskedLM", DEBERTA),
    "deberta with an own decoder": (
        "DebertaV2ForMaskedLM",
        DEBERTA | UNTIED,
    ),
    "deberta with the head of its authors": (
        "DebertaV2ForMaskedLM",
        DEBERTA | {"legacy": False, "max_relative_positions": 12},
    ),
    "deberta encoder": ("DebertaV2Model", DEBERTA),
    "albert classifier": ("AlbertForSequenceClassification", EMBEDDING | THREE),
}

close = partial(torch.testing.assert_close, rtol=0, atol=1e-10)


@pytest.fixture(autouse=True)
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    all_in_float64(monkeypatch)


@pytest.mark.parametrize("name", MODELS)
def test_hidden_states_of_every_layer_logits_and_gradients_are_equal(name, tmp_path):
    theirs = host(MODELS[name][0], **MODELS[name][1])
    ours, tokenizer = relpos.load(saved(theirs, tmp_path))
    assert tokenizer is None
    ids, mask, types = batch(theirs.config, padded=not name.startswith(UNPADDED))
    output, states = outputs(theirs, ids, mask, types), hidden_states(ours, ids, mask, types)
    for ours_here, theirs_here in zip(states, output.hidden_states, strict=True):
        close(ours_here[mask], theirs_here[mask])
    expected, logits = output[0], ours(ids, mask, types)
    if logits.shape[:2] == mask.shape:
        expected, logits = expected[mask], logits[mask]
    close(logits, expected)
    weights = torch.linspace(-1, 1, logits.numel(), dtype=torch.float64).view_as(logits)
    (expected * weights).sum().backward()
    (logits * weights).sum().backward()
    gradients, _ = relpos.load(saved_gradients(theirs, tmp_path / "gradients"))
    for (parameter, ours_here), theirs_here in zip(
        ours.named_parameters(), gradients.parameters(), strict=True
    ):
        # a pooler that nothing reads
        gradient = torch.zeros_like(ours_here) if ours_here.grad is None else ours_here.grad
        close(gradient, theirs_here.data, msg=parameter)


TIED = [
    name
    for name, (kind, config) in MODELS.items()
    if kind.endswith("ForMaskedLM") and not {"tie_word_embeddings", "legacy"} & {*config}
]


CHANGED = ("weight", "bias")


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        (name, part)
        for number, name in enumerate(TIED)
        for part in CHANGED
        if FULL or part == CHANGED[number % 2]
    ],
)
def test_a_decoder_that_was_trained_apart_is_read_although_the_configuration_ties_it(
    name, changed, tmp_path
):
    kind, config = MODELS[name]
    theirs = host(kind, **config, tie_word_embeddings=False)
    folder = saved(theirs, tmp_path)
    path = folder / "model.safetensors"
    weights, decoder = load_file(path), theirs.get_output_embeddings()

    def names(part: torch.Tensor) -> list[str]:
        return [
            name
            for name, value in theirs.state_dict().items()
            if value.data_ptr() == part.data_ptr()
        ]

    # the table repeats that of the words, and of two biases, where there are two, the decoder's is
    # another
    if changed == "bias":
        [words] = names(theirs.get_input_embeddings().weight)
        weights[names(decoder.weight)[0]] = weights[words].clone()
        for place, bias in enumerate(sorted(names(decoder.bias))):
            weights[bias] = decoder.bias.detach() + place
    save_file(weights, path, {"format": "pt"})
    stored = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(stored | {"tie_word_embeddings": True}))
    expected = type(theirs).from_pretrained(folder, dtype=torch.float64).eval()
    ours, _ = relpos.load(folder)
    ids, mask, types = batch(theirs.config, padded=not name.startswith(UNPADDED))
    logits = ours(ids, mask, types)[mask]
    close(logits, outputs(expected, ids, mask, types)[0][mask])


@pytest.mark.parametrize(
    ("family", "name", "config"),
    [
        (MODERNBERT, "modernbert", {}),
        (DEBERTA_V2, "deberta", DEBERTA | {"position_buckets": 256, "max_relative_positions": -1}),
    ],
)
def test_positions_as_published_are_those_of_the_option_file(family, name, config):
    settings = from_config(family, config)
    assert to_config(family, settings | {"position": node("position", name)}) == to_config(
        family, settings
    )


def test_mpnet_has_the_buckets_of_t5_at_every_distance(tmp_path):
    theirs = host("MPNetModel", max_position_embeddings=202)
    ours, _ = relpos.load(saved(theirs, tmp_path))
    ids = torch.randint(5, 40, (1, 200), generator=torch.Generator().manual_seed(0))
    close(ours(ids), theirs(ids)[0])


def test_convbert_of_transformers_leaks_padding_into_real_tokens_and_ours_does_not(tmp_path):
    theirs = host("ConvBertForMaskedLM", **EMBEDDING)
    ours, _ = relpos.load(saved(theirs, tmp_path))
    ids, mask, types = batch(theirs.config)
    n = int(mask[1].sum())
    alone = (ids[1:2, :n], mask[1:2, :n], types[1:2, :n])
    close(ours(*alone), theirs(*alone).logits)
    close(ours(ids, mask, types)[1, :n], ours(*alone)[0])
    assert (theirs(ids, mask, types).logits[1, :n] - theirs(*alone).logits[0]).abs().max() > 1e-3
