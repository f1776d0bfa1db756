"""DistilBERT (Sanh et al. 2019): BERT without token types and pooler.

Its classifier is not read: between its two linear maps it has ReLU where ours have tanh.
"""

from __future__ import annotations

from relpos.pretrained.bert import POSITIONS
from relpos.pretrained.family import SIZE, ConfigKey, Family, activation, masked_lm, weights

_HIDDEN = ConfigKey("dim", 768)

FAMILY = Family(
    model_type="distilbert",
    prefix="distilbert.",
    name="DistilBert",
    vocabulary=30522,
    size=SIZE
    | {
        "layers": ConfigKey("n_layers", 6),
        "hidden": _HIDDEN,
        "embedding": _HIDDEN,
        "heads": ConfigKey("n_heads", 12),
        "ffn": ConfigKey("hidden_dim", 3072),
        "dropout": ConfigKey("dropout", 0.1),
        "attention_dropout": ConfigKey("attention_dropout", 0.1),
        "activation": ConfigKey("activation", "gelu", activation),
        # Fixed in the code of transformers: config.json has no key for it.
        "norm_eps": 1e-12,
        "token_types": 0,
    },
    encoder=(
        *weights(
            """
            words.weight  word_embeddings.weight
            norm          LayerNorm
            """,
            ours="embedding.",
            theirs="embeddings.",
        ),
        POSITIONS,
    ),
    layer=weights(
        """
        attention.project  attention.q_lin attention.k_lin attention.v_lin
        attention.output   attention.out_lin
        attention_norm     sa_layer_norm
        widen              ffn.lin1
        narrow             ffn.lin2
        ffn_norm           output_layer_norm
        """,
        ours="layers.{n}.",
        theirs="transformer.layer.{n}.",
    ),
    heads=masked_lm(
        weights("head.narrow transform\nhead.norm layer_norm", theirs="vocab_"),
        "vocab_projector.bias",
        "vocab_projector.weight",
    ),
    unread=(r"vocab_projector\.weight", r".*\.position_ids"),
)
