"""ConvBERT (Jiang et al. 2020): half of the heads are dynamic convolutions.

In `transformers` the convolutions read padding, so that the last real tokens of a text depend on
the padding after it. Ours hide it. Without padding both compute the same.
"""

from __future__ import annotations

from dataclasses import replace

from relpos.pretrained.bert import AFTER_ATTENTION
from relpos.pretrained.bert import FAMILY as BERT
from relpos.pretrained.electra import FAMILY as ELECTRA
from relpos.pretrained.electra import GENERATOR
from relpos.pretrained.family import SIZE, ConfigKey, Weight, weights

_SELF = "encoder.layer.{n}.attention.self."
_KEY, _OURS = f"{_SELF}key_conv_attn_layer.", "layers.{n}.attention."

FAMILY = replace(
    BERT,
    model_type="convbert",
    prefix="convbert.",
    name="ConvBert",
    size=SIZE | {"embedding": ConfigKey("embedding_size", 768)},
    conv={
        "_target_": "relpos.model.conv.ConvBert",
        "width": ConfigKey("conv_kernel_size", 9),
        "kernel_from": "query",
        "edges": "zero",
        "bias": False,
    },
    # Only with a head_ratio of 2 half of their heads are ordinary, as ours are.
    constants={**BERT.constants, "head_ratio": 2, "num_groups": 1},
    layer=(
        *weights("project query key value conv_out_layer", _OURS, _SELF),
        # Theirs are weights of Conv1d modules, with an axis of length 1 that ours leave out.
        Weight(f"{_OURS}conv.key.depthwise.weight", f"{_KEY}depthwise.weight", single=1),
        Weight(f"{_OURS}conv.key.pointwise.weight", f"{_KEY}pointwise.weight", single=2),
        Weight(f"{_OURS}conv.key.pointwise.bias", f"{_KEY}bias", single=1),
        *weights("conv.kernel conv_kernel_layer", _OURS, _SELF),
        *AFTER_ATTENTION,
    ),
    widen=ELECTRA.widen,
    pooler=(),
    heads=GENERATOR,
    unread=ELECTRA.unread,
)
