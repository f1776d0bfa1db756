"""ELECTRA (Clark et al. 2020), discriminator and generator: BERT's layers under embeddings that may
be narrower."""

from __future__ import annotations

from relpos.pretrained.bert import EMBEDDINGS, LAYER, POSITIONS
from relpos.pretrained.bert import FAMILY as BERT
from relpos.pretrained.family import SIZE, ConfigKey, Family, HeadLayout, linear, masked_lm

_TRANSFORM = (
    *linear("head.narrow", "generator_predictions.dense"),
    *linear("head.norm", "generator_predictions.LayerNorm"),
)
GENERATOR = masked_lm(
    "ElectraForMaskedLM",
    _TRANSFORM,
    "generator_lm_head.bias",
    "generator_lm_head.weight",
    activation="gelu",  # whatever the layers have
)
FACTORISED = SIZE | {
    "hidden": ConfigKey("hidden_size", 256),
    "embedding": ConfigKey("embedding_size", 128),
    "heads": ConfigKey("num_attention_heads", 4),
    "ffn": ConfigKey("intermediate_size", 1024),
}

FAMILY = Family(
    model_type="electra",
    prefix="electra.",
    base="ElectraModel",
    settings=BERT.settings | {"size": FACTORISED},
    constants=BERT.constants,
    encoder=(*EMBEDDINGS, POSITIONS),
    layer=LAYER,
    widen=linear("embedding.widen", "embeddings_project"),
    heads=(
        *GENERATOR,
        HeadLayout(
            "ElectraForPreTraining",
            (
                *linear("dense", "discriminator_predictions.dense"),
                *linear("output", "discriminator_predictions.dense_prediction"),
            ),
            {"kind": "replaced_tokens"},
        ),
    ),
    unread=(r"generator_lm_head\.weight", r".*\.position_ids"),
)
