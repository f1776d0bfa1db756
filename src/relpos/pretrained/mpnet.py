"""MPNet (Song et al. 2020): RoBERTa without token types, and with T5's bias, one table for all
layers, beside its positions.

`transformers` computes the buckets of T5's default, whatever `config.json` says.
"""

from __future__ import annotations

from dataclasses import replace

from relpos.pretrained.bert import POSITIONS
from relpos.pretrained.distilbert import FAMILY as DISTILBERT
from relpos.pretrained.family import ABSOLUTE, SIZE, ConfigKey, Family, Weight, linear, renamed
from relpos.pretrained.roberta import FAMILY as ROBERTA
from relpos.pretrained.roberta import POSITIONS_BEHIND, RESERVED

_LAYER, _BUCKETS = "encoder.layer.{n}", 32
_T5 = {"_target_": "relpos.model.position.T5", "buckets": _BUCKETS, "max_distance": 128}

FAMILY = Family(
    model_type="mpnet",
    prefix="mpnet.",
    base="MPNetModel",
    settings=ROBERTA.settings
    | {
        "size": SIZE | {"max_positions": POSITIONS_BEHIND, "token_types": 0},
        "position": {"_target_": "relpos.model.position.Merge", "parts": [ABSOLUTE, _T5]},
        "vocabulary": ConfigKey("vocab_size", 30527),
    },
    constants=ROBERTA.constants | {"relative_attention_num_buckets": _BUCKETS},
    encoder=(
        # Without its positions, which have no reserved rows.
        *DISTILBERT.encoder[:-1],
        replace(POSITIONS, ours="position.parts.0.table", reserved=RESERVED),
        Weight("position.parts.1.table", "encoder.relative_attention_bias.weight", transposed=True),
    ),
    layer=(
        *linear(
            "layers.{n}.attention.project", *(f"{_LAYER}.attention.attn.{name}" for name in "qkv")
        ),
        *linear("layers.{n}.attention.output", f"{_LAYER}.attention.attn.o"),
        *linear("layers.{n}.attention_norm", f"{_LAYER}.attention.LayerNorm"),
        *linear("layers.{n}.widen", f"{_LAYER}.intermediate.dense"),
        *linear("layers.{n}.narrow", f"{_LAYER}.output.dense"),
        *linear("layers.{n}.ffn_norm", f"{_LAYER}.output.LayerNorm"),
    ),
    pooler=ROBERTA.pooler,
    heads=renamed(ROBERTA.heads, "Roberta", "MPNet"),
    unread=ROBERTA.unread,
)
