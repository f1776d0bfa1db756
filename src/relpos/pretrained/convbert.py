"""ConvBERT (Jiang et al. 2020): half of the heads are dynamic convolutions.

In `transformers` the convolutions read padding, so that the last real tokens of a text depend on
the padding after it. Ours hide it. Without padding both compute the same.
"""

from __future__ import annotations

from relpos.pretrained.bert import AFTER_ATTENTION, EMBEDDINGS, POSITIONS
from relpos.pretrained.bert import FAMILY as BERT
from relpos.pretrained.electra import FAMILY as ELECTRA
from relpos.pretrained.electra import GENERATOR
from relpos.pretrained.family import SIZE, ConfigKey, Family, Weight, linear, renamed

_SELF = "encoder.layer.{n}.attention.self"
_KEY, _OURS = f"{_SELF}.key_conv_attn_layer", "layers.{n}.attention.conv"
_CONV = {
    "_target_": "relpos.model.conv.ConvBert",
    "width": ConfigKey("conv_kernel_size", 9),
    "kernel_from": "query",
    "edges": "zero",
    "bias": False,
}

FAMILY = Family(
    model_type="convbert",
    prefix="convbert.",
    base="ConvBertModel",
    settings=BERT.settings
    | {"size": SIZE | {"embedding": ConfigKey("embedding_size", 768)}, "conv": _CONV},
    # Only with a head_ratio of 2 half of their heads are ordinary, as ours are.
    constants=BERT.constants | {"head_ratio": 2, "num_groups": 1},
    encoder=(*EMBEDDINGS, POSITIONS),
    layer=(
        *linear(
            "layers.{n}.attention.project",
            f"{_SELF}.query",
            f"{_SELF}.key",
            f"{_SELF}.value",
            f"{_SELF}.conv_out_layer",
        ),
        # Theirs are weights of Conv1d modules, with an axis of length 1 that ours leave out.
        Weight(f"{_OURS}.key.depthwise.weight", f"{_KEY}.depthwise.weight", single=1),
        Weight(f"{_OURS}.key.pointwise.weight", f"{_KEY}.pointwise.weight", single=2),
        Weight(f"{_OURS}.key.pointwise.bias", f"{_KEY}.bias", single=1),
        *linear(f"{_OURS}.kernel", f"{_SELF}.conv_kernel_layer"),
        *AFTER_ATTENTION,
    ),
    widen=ELECTRA.widen,
    heads=renamed(GENERATOR, "Electra", "ConvBert"),
    unread=ELECTRA.unread,
)
