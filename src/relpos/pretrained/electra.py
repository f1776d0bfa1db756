"""ELECTRA (Clark et al. 2020), discriminator and generator: BERT's layers under embeddings that may
be narrower."""

from __future__ import annotations

from dataclasses import replace

from relpos.pretrained.bert import FAMILY as BERT
from relpos.pretrained.family import SIZE, ConfigKey, Head, HeadLayout, masked_lm, weights

GENERATOR = masked_lm(
    weights("head.narrow dense\nhead.norm LayerNorm", theirs="generator_predictions."),
    "generator_lm_head.bias",
    "generator_lm_head.weight",
    activation="gelu",  # whatever the layers have
)
_DISCRIMINATOR = weights(
    """
    dense   dense
    output  dense_prediction
    """,
    theirs="discriminator_predictions.",
)

FAMILY = replace(
    BERT,
    model_type="electra",
    prefix="electra.",
    name="Electra",
    size=SIZE
    | {
        "hidden": ConfigKey("hidden_size", 256),
        "embedding": ConfigKey("embedding_size", 128),
        "heads": ConfigKey("num_attention_heads", 4),
        "ffn": ConfigKey("intermediate_size", 1024),
    },
    widen=weights("embedding.widen embeddings_project"),
    pooler=(),
    heads=(*GENERATOR, HeadLayout("ForPreTraining", _DISCRIMINATOR, Head("replaced_tokens"))),
    unread=(r"generator_lm_head\.weight", r".*\.position_ids"),
)
