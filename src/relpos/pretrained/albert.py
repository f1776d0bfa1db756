"""ALBERT, version 1 and 2 (Lan et al. 2020): one layer for all passes, embeddings narrower than the
layers."""

from __future__ import annotations

from relpos.pretrained.bert import EMBEDDINGS, POSITIONS
from relpos.pretrained.family import (
    ABSOLUTE,
    NO_CONV,
    NO_DECODER,
    SIZE,
    ConfigKey,
    Family,
    classifier,
    linear,
    masked_lm,
)

_LAYER = "encoder.albert_layer_groups.0.albert_layers.0"
_TRANSFORM = (
    *linear("head.narrow", "predictions.dense"),
    *linear("head.norm", "predictions.LayerNorm"),
)

FAMILY = Family(
    model_type="albert",
    prefix="albert.",
    base="AlbertModel",
    settings={
        "size": SIZE
        | {
            "hidden": ConfigKey("hidden_size", 4096),
            "embedding": ConfigKey("embedding_size", 128),
            "heads": ConfigKey("num_attention_heads", 64),
            "ffn": ConfigKey("intermediate_size", 16384),
            "dropout": ConfigKey("hidden_dropout_prob", 0.0),
            "attention_dropout": ConfigKey("attention_probs_dropout_prob", 0.0),
            "activation": ConfigKey("hidden_act", "gelu_new", SIZE["activation"].read),
            "share_layers": True,
        },
        "position": ABSOLUTE,
        "conv": NO_CONV,
        "vocabulary": ConfigKey("vocab_size", 30000),
    },
    # One group of one layer, which all passes share: `_LAYER` names no other.
    constants=NO_DECODER | {"num_hidden_groups": 1, "inner_group_num": 1},
    encoder=(*EMBEDDINGS, POSITIONS),
    layer=(
        *linear(
            "layers.0.attention.project",
            *(f"{_LAYER}.attention.{name}" for name in ("query", "key", "value")),
        ),
        *linear("layers.0.attention.output", f"{_LAYER}.attention.dense"),
        *linear("layers.0.attention_norm", f"{_LAYER}.attention.LayerNorm"),
        *linear("layers.0.widen", f"{_LAYER}.ffn"),
        *linear("layers.0.narrow", f"{_LAYER}.ffn_output"),
        *linear("layers.0.ffn_norm", f"{_LAYER}.full_layer_layer_norm"),
    ),
    widen=linear("embedding.widen", "encoder.embedding_hidden_mapping_in"),
    pooler=linear("pooler", "pooler"),
    heads=(
        *masked_lm(
            "AlbertForMaskedLM",
            _TRANSFORM,
            "predictions.bias",
            "predictions.decoder.weight",
            "predictions.decoder.bias",
        ),
        classifier("AlbertForSequenceClassification", "albert.pooler"),
    ),
    unread=(r"sop_classifier\..*", r"predictions\.decoder\.weight", r".*\.position_ids"),
)
