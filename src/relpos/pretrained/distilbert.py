"""DistilBERT (Sanh et al. 2019): BERT without token types and pooler.

Its classifier is not read: between its two linear maps it has ReLU where ours have tanh.
"""

from __future__ import annotations

from relpos.pretrained.bert import POSITIONS
from relpos.pretrained.family import (
    ABSOLUTE,
    NO_CONV,
    NO_DECODER,
    SIZE,
    ConfigKey,
    Family,
    Weight,
    linear,
    masked_lm,
)

_LAYER, _HIDDEN = "transformer.layer.{n}", ConfigKey("dim", 768)
_TRANSFORM = (*linear("head.narrow", "vocab_transform"), *linear("head.norm", "vocab_layer_norm"))

FAMILY = Family(
    model_type="distilbert",
    prefix="distilbert.",
    base="DistilBertModel",
    settings={
        "size": SIZE
        | {
            "layers": ConfigKey("n_layers", 6),
            "hidden": _HIDDEN,
            "embedding": _HIDDEN,
            "heads": ConfigKey("n_heads", 12),
            "ffn": ConfigKey("hidden_dim", 3072),
            "dropout": ConfigKey("dropout", 0.1),
            "attention_dropout": ConfigKey("attention_dropout", 0.1),
            "activation": ConfigKey("activation", "gelu", SIZE["activation"].read),
            # Fixed in the code of transformers: config.json has no key for it.
            "norm_eps": 1e-12,
            "token_types": 0,
        },
        "position": ABSOLUTE,
        "conv": NO_CONV,
        "vocabulary": ConfigKey("vocab_size", 30522),
    },
    constants=NO_DECODER,
    encoder=(
        Weight("embedding.words.weight", "embeddings.word_embeddings.weight"),
        *linear("embedding.norm", "embeddings.LayerNorm"),
        POSITIONS,
    ),
    layer=(
        *linear(
            "layers.{n}.attention.project", *(f"{_LAYER}.attention.{name}_lin" for name in "qkv")
        ),
        *linear("layers.{n}.attention.output", f"{_LAYER}.attention.out_lin"),
        *linear("layers.{n}.attention_norm", f"{_LAYER}.sa_layer_norm"),
        *linear("layers.{n}.widen", f"{_LAYER}.ffn.lin1"),
        *linear("layers.{n}.narrow", f"{_LAYER}.ffn.lin2"),
        *linear("layers.{n}.ffn_norm", f"{_LAYER}.output_layer_norm"),
    ),
    heads=masked_lm(
        "DistilBertForMaskedLM", _TRANSFORM, "vocab_projector.bias", "vocab_projector.weight"
    ),
    unread=(r"vocab_projector\.weight", r".*\.position_ids"),
)
