"""ALBERT, version 1 and 2 (Lan et al. 2020): one layer for all passes, embeddings narrower than the
layers."""

from __future__ import annotations

from relpos.pretrained.bert import EMBEDDINGS, POSITIONS
from relpos.pretrained.family import (
    NO_DECODER,
    SIZE,
    ConfigKey,
    Family,
    activation,
    classifier,
    masked_lm,
    weights,
)

FAMILY = Family(
    model_type="albert",
    prefix="albert.",
    name="Albert",
    vocabulary=30000,
    size=SIZE
    | {
        "hidden": ConfigKey("hidden_size", 4096),
        "embedding": ConfigKey("embedding_size", 128),
        "heads": ConfigKey("num_attention_heads", 64),
        "ffn": ConfigKey("intermediate_size", 16384),
        "dropout": ConfigKey("hidden_dropout_prob", 0.0),
        "attention_dropout": ConfigKey("attention_probs_dropout_prob", 0.0),
        "activation": ConfigKey("hidden_act", "gelu_new", activation),
        "share_layers": True,
    },
    # One group of one layer, which all passes share.
    constants=NO_DECODER | {"num_hidden_groups": 1, "inner_group_num": 1},
    encoder=(*EMBEDDINGS, POSITIONS),
    layer=weights(
        """
        attention.project  attention.query attention.key attention.value
        attention.output   attention.dense
        attention_norm     attention.LayerNorm
        widen              ffn
        narrow             ffn_output
        ffn_norm           full_layer_layer_norm
        """,
        ours="layers.0.",
        theirs="encoder.albert_layer_groups.0.albert_layers.0.",
    ),
    widen=weights("embedding.widen encoder.embedding_hidden_mapping_in"),
    pooler=weights("pooler pooler"),
    heads=(
        *masked_lm(
            weights("head.narrow dense\nhead.norm LayerNorm", theirs="predictions."),
            "predictions.bias",
            "predictions.decoder.weight",
            "predictions.decoder.bias",
        ),
        classifier("albert.pooler"),
    ),
    unread=(r"sop_classifier\..*", r"predictions\.decoder\.weight", r".*\.position_ids"),
)
