"""BERT (Devlin et al. 2019), and every checkpoint of its form: MiniLM, the encoders of
sentence-transformers, …

ERNIE (Sun et al. 2019) computes the same unless it adds an embedding of the task, as ERNIE 2.0 and
3.0 do.
"""

from __future__ import annotations

from dataclasses import replace

from relpos.pretrained.family import (
    ABSOLUTE,
    NO_CONV,
    NO_DECODER,
    SIZE,
    ConfigKey,
    Family,
    Weight,
    classifier,
    linear,
    masked_lm,
    renamed,
)

EMBEDDINGS = (
    Weight("embedding.words.weight", "embeddings.word_embeddings.weight"),
    Weight("embedding.types.weight", "embeddings.token_type_embeddings.weight"),
    *linear("embedding.norm", "embeddings.LayerNorm"),
)
POSITIONS = Weight("position.table", "embeddings.position_embeddings.weight")
_SELF = "encoder.layer.{n}.attention.self"
AFTER_ATTENTION = (
    *linear("layers.{n}.attention.output", "encoder.layer.{n}.attention.output.dense"),
    *linear("layers.{n}.attention_norm", "encoder.layer.{n}.attention.output.LayerNorm"),
    *linear("layers.{n}.widen", "encoder.layer.{n}.intermediate.dense"),
    *linear("layers.{n}.narrow", "encoder.layer.{n}.output.dense"),
    *linear("layers.{n}.ffn_norm", "encoder.layer.{n}.output.LayerNorm"),
)
LAYER = (
    *linear("layers.{n}.attention.project", f"{_SELF}.query", f"{_SELF}.key", f"{_SELF}.value"),
    *AFTER_ATTENTION,
)
_PREDICTIONS = "cls.predictions"
_TRANSFORM = (
    *linear("head.narrow", f"{_PREDICTIONS}.transform.dense"),
    *linear("head.norm", f"{_PREDICTIONS}.transform.LayerNorm"),
)
MASKED_LM = masked_lm(
    "BertForMaskedLM",
    _TRANSFORM,
    f"{_PREDICTIONS}.bias",
    f"{_PREDICTIONS}.decoder.weight",
    f"{_PREDICTIONS}.decoder.bias",
)

FAMILY = Family(
    model_type="bert",
    prefix="bert.",
    base="BertModel",
    settings={
        "size": SIZE,
        "position": ABSOLUTE,
        "conv": NO_CONV,
        "vocabulary": ConfigKey("vocab_size", 30522),
    },
    constants=NO_DECODER,
    encoder=(*EMBEDDINGS, POSITIONS),
    layer=LAYER,
    pooler=linear("pooler", "pooler.dense"),
    heads=(*MASKED_LM, classifier("BertForSequenceClassification", "bert.pooler.dense")),
    # The head for next sentences, a tied decoder, which repeats the word table, and a buffer of
    # numbers of positions.
    unread=(
        r"cls\.seq_relationship\..*",
        r"cls\.predictions\.decoder\.weight",
        r".*\.position_ids",
    ),
)

ERNIE = replace(
    FAMILY,
    model_type="ernie",
    prefix="ernie.",
    base="ErnieModel",
    constants=NO_DECODER | {"use_task_id": False},
    heads=(
        *renamed(MASKED_LM, "Bert", "Ernie"),
        classifier("ErnieForSequenceClassification", "ernie.pooler.dense"),
    ),
)
