"""BERT and the encoders of its form, which differ in names, in where their positions begin, and in
small parts: each is a table beside BERT's.
"""

from __future__ import annotations

from dataclasses import replace

from relpos.model.architecture import HeadOptions
from relpos.pretrained.family import (
    ABSOLUTE,
    NO_DECODER,
    SIZE,
    ConfigKey,
    Family,
    HeadLayout,
    Weight,
    activation,
    classifier,
    defaults,
    masked_lm,
    weights,
)

# BERT (Devlin et al. 2019), and every checkpoint of its form: MiniLM, the encoders of
# sentence-transformers, …
#
# ERNIE (Sun et al. 2019) computes the same unless it adds an embedding of the task, as ERNIE 2.0 and
# 3.0 do.
EMBEDDINGS = weights(
    """
    embedding.words.weight  embeddings.word_embeddings.weight
    embedding.types.weight  embeddings.token_type_embeddings.weight
    embedding.norm          embeddings.LayerNorm
    """
)
POSITIONS = Weight("position.table", "embeddings.position_embeddings.weight")
_OURS, _THEIRS = "layers.{n}.", "encoder.layer.{n}."
_SELF = f"{_THEIRS}attention.self."
AFTER_ATTENTION = weights(
    """
    attention.output  attention.output.dense
    attention_norm    attention.output.LayerNorm
    widen             intermediate.dense
    narrow            output.dense
    ffn_norm          output.LayerNorm
    """,
    _OURS,
    _THEIRS,
)
MASKED_LM = masked_lm(
    weights("head.narrow dense\nhead.norm LayerNorm", theirs="cls.predictions.transform."),
    "cls.predictions.bias",
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
)

BERT = Family(
    model_type="bert",
    name="Bert",
    vocabulary=30522,
    encoder=(*EMBEDDINGS, POSITIONS),
    layer=(*weights("attention.project query key value", _OURS, _SELF), *AFTER_ATTENTION),
    pooler=weights("pooler pooler.dense"),
    heads=(*MASKED_LM, classifier("bert.pooler.dense")),
    # The head for next sentences, a tied decoder, which repeats the word table, and a buffer of
    # numbers of positions.
    unread=r"cls\.seq_relationship\..*|cls\.predictions\.decoder\.weight|.*\.position_ids",
)

ERNIE = replace(
    BERT,
    model_type="ernie",
    name="Ernie",
    constants=NO_DECODER | {"use_task_id": False},
    heads=(*MASKED_LM, classifier("ernie.pooler.dense")),
)

# ELECTRA (Clark et al. 2020), discriminator and generator: BERT's layers under embeddings that may
# be narrower.
GENERATOR = masked_lm(
    weights("head.narrow dense\nhead.norm LayerNorm", theirs="generator_predictions."),
    "generator_lm_head.bias",
    "generator_lm_head.weight",
    activation="gelu",  # whatever the layers have
)
_DISCRIMINATOR = weights(
    "dense dense\noutput dense_prediction", theirs="discriminator_predictions."
)
_EMBEDDING = ConfigKey("embedding_size", 128)

ELECTRA = replace(
    BERT,
    model_type="electra",
    name="Electra",
    size=SIZE | defaults(hidden=256, heads=4, ffn=1024) | {"embedding": _EMBEDDING},
    widen=weights("embedding.widen embeddings_project"),
    pooler=(),
    heads=(
        *GENERATOR,
        HeadLayout("ForPreTraining", _DISCRIMINATOR, HeadOptions("replaced_tokens")),
    ),
    unread=r"generator_lm_head\.weight|.*\.position_ids",
)

# ALBERT, version 1 and 2 (Lan et al. 2020): one layer for all passes, embeddings narrower than the
# layers.
ALBERT = replace(
    BERT,
    model_type="albert",
    name="Albert",
    vocabulary=30000,
    size=SIZE
    | defaults(
        hidden=4096,
        heads=64,
        ffn=16384,
        dropout=0.0,
        attention_dropout=0.0,
        activation="gelu_new",
    )
    | {"embedding": _EMBEDDING, "share_layers": True},
    # One group of one layer, which all passes share.
    constants=NO_DECODER | {"num_hidden_groups": 1, "inner_group_num": 1},
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
    unread=r"sop_classifier\..*|predictions\.decoder\.weight|.*\.position_ids",
)

# RoBERTa (Liu et al. 2019), XLM-R (Conneau et al. 2020), CamemBERT (Martin et al. 2020) and the
# text encoder of data2vec (Baevski et al. 2022): BERT's form, and positions that begin after two
# reserved rows.
#
# `transformers` counts only tokens that are not padding and adds the padding's id, which is 1: the
# first token of a text has row 2 of 514. Ours drops the two reserved rows and counts all tokens of a
# row of the batch, so that texts padded at the end have the same positions in both. The outputs at
# padding differ, but no other token reads them. Texts padded in front, and texts that contain the
# padding's id as a word, would have other positions here.
_RESERVED = 2
_POSITIONS_BEHIND = ConfigKey(
    "max_position_embeddings", 514, lambda rows: rows - _RESERVED, lambda rows: rows + _RESERVED
)

ROBERTA = replace(
    BERT,
    model_type="roberta",
    name="Roberta",
    vocabulary=50265,
    size=SIZE | {"max_positions": _POSITIONS_BEHIND},
    constants={**BERT.constants, "pad_token_id": _RESERVED - 1},
    encoder=(*EMBEDDINGS, replace(POSITIONS, reserved=_RESERVED)),
    heads=(
        *masked_lm(
            weights("head.narrow dense\nhead.norm layer_norm", theirs="lm_head."),
            "lm_head.bias",
            "lm_head.decoder.weight",
            "lm_head.decoder.bias",
            activation="gelu",  # whatever the layers have
        ),
        classifier("classifier.dense", "classifier.out_proj"),
    ),
    unread=r"lm_head\.decoder\.weight|.*\.position_ids",
)


def _named(model_type: str, name: str, vocabulary: int, base: str = "roberta") -> Family:
    """The same family under the names of other classes."""
    return replace(
        ROBERTA,
        model_type=model_type,
        base=base,
        name=name,
        vocabulary=vocabulary,
    )


XLM_R = _named("xlm-roberta", "XLMRoberta", 250002)
CAMEMBERT = _named("camembert", "Camembert", 30522)
DATA2VEC = _named("data2vec-text", "Data2VecText", 30522, base="data2vec_text")

# DistilBERT (Sanh et al. 2019): BERT without token types and pooler.
#
# Its classifier is not read: between its two linear maps it has ReLU where ours have tanh.
_HIDDEN = ConfigKey("dim", 768)

DISTILBERT = replace(
    BERT,
    model_type="distilbert",
    name="DistilBert",
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
        _OURS,
        theirs="transformer.layer.{n}.",
    ),
    pooler=(),
    heads=masked_lm(
        weights("head.narrow transform\nhead.norm layer_norm", theirs="vocab_"),
        "vocab_projector.bias",
        "vocab_projector.weight",
    ),
    unread=r"vocab_projector\.weight|.*\.position_ids",
)

# MPNet (Song et al. 2020): RoBERTa without token types, and with T5's bias, one table for all
# layers, beside its positions.
#
# `transformers` computes the buckets of T5's default, whatever `config.json` says.
_BUCKETS = 32
_T5 = {"_target_": "relpos.model.position.T5", "buckets": _BUCKETS, "max_distance": 128}

MPNET = replace(
    ROBERTA,
    model_type="mpnet",
    name="MPNet",
    vocabulary=30527,
    size=SIZE | {"max_positions": _POSITIONS_BEHIND, "token_types": 0},
    position={"_target_": "relpos.model.position.Merge", "parts": [ABSOLUTE, _T5]},
    constants={**ROBERTA.constants, "relative_attention_num_buckets": _BUCKETS},
    encoder=(
        # Without its positions, which have no reserved rows.
        *DISTILBERT.encoder[:-1],
        replace(POSITIONS, ours="position.parts.0.table", reserved=_RESERVED),
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
        _OURS,
        _THEIRS,
    ),
)

# RoFormer (Su et al. 2021): rotary positions, neighbouring channels paired as ours are.
ROFORMER = replace(
    BERT,
    model_type="roformer",
    name="RoFormer",
    vocabulary=50000,
    size=SIZE | defaults(max_positions=1536) | {"embedding": ConfigKey("embedding_size", 768)},
    position={
        "_target_": "relpos.model.position.Rope",
        "base": 10000.0,
        "values": ConfigKey("rotary_value", False),
        "fraction": 1.0,
    },
    encoder=EMBEDDINGS,
    widen=ELECTRA.widen,
    heads=MASKED_LM,
    # `transformers` may store the table of sines, and computes it where it is not stored.
    unread=rf"{BERT.unread}|.*embed_positions\.weight",
)

# ConvBERT (Jiang et al. 2020): half of the heads are dynamic convolutions.
#
# In `transformers` the convolutions read padding, so that the last real tokens of a text depend on
# the padding after it. Ours hide it. Without padding both compute the same.
_KEY = f"{_SELF}key_conv_attn_layer."
_OUR_KEY = f"{_OURS}attention.conv.key."

CONVBERT = replace(
    BERT,
    model_type="convbert",
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
        *weights("attention.project query key value conv_out_layer", _OURS, _SELF),
        # Theirs are weights of Conv1d modules, with an axis of length 1 that ours leave out.
        Weight(f"{_OUR_KEY}depthwise.weight", f"{_KEY}depthwise.weight", single=1),
        Weight(f"{_OUR_KEY}pointwise.weight", f"{_KEY}pointwise.weight", single=2),
        Weight(f"{_OUR_KEY}pointwise.bias", f"{_KEY}bias", single=1),
        *weights("attention.conv.kernel conv_kernel_layer", _OURS, _SELF),
        *AFTER_ATTENTION,
    ),
    widen=ELECTRA.widen,
    pooler=(),
    heads=GENERATOR,
    unread=ELECTRA.unread,
)
