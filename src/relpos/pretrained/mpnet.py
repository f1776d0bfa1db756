"""MPNet (Song et al. 2020): RoBERTa without token types, and with T5's bias, one table for all
layers, beside its positions.

`transformers` computes the buckets of T5's default, whatever `config.json` says.
"""

from __future__ import annotations

from dataclasses import replace

from relpos.pretrained.bert import POSITIONS
from relpos.pretrained.distilbert import FAMILY as DISTILBERT
from relpos.pretrained.family import ABSOLUTE, SIZE, Weight, weights
from relpos.pretrained.roberta import FAMILY as ROBERTA
from relpos.pretrained.roberta import POSITIONS_BEHIND, RESERVED

_BUCKETS = 32
_T5 = {"_target_": "relpos.model.position.T5", "buckets": _BUCKETS, "max_distance": 128}

FAMILY = replace(
    ROBERTA,
    model_type="mpnet",
    prefix="mpnet.",
    name="MPNet",
    vocabulary=30527,
    size=SIZE | {"max_positions": POSITIONS_BEHIND, "token_types": 0},
    position={"_target_": "relpos.model.position.Merge", "parts": [ABSOLUTE, _T5]},
    constants={**ROBERTA.constants, "relative_attention_num_buckets": _BUCKETS},
    encoder=(
        # Without its positions, which have no reserved rows.
        *DISTILBERT.encoder[:-1],
        replace(POSITIONS, ours="position.parts.0.table", reserved=RESERVED),
        Weight("position.parts.1.table", "encoder.relative_attention_bias.weight", transposed=True),
    ),
    layer=weights(
        """
        attention.project  attention.attn.q attention.attn.k attention.attn.v
        attention.output   attention.attn.o
        attention_norm     attention.LayerNorm
        widen              intermediate.dense
        narrow             output.dense
        ffn_norm           output.LayerNorm
        """,
        ours="layers.{n}.",
        theirs="encoder.layer.{n}.",
    ),
)
