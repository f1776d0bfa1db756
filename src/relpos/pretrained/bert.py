"""BERT (Devlin et al. 2019), and every checkpoint of its form: MiniLM, the encoders of sentence-transformers, …

ERNIE (Sun et al. 2019) computes the same unless it adds an embedding of the task, as ERNIE 2.0 and 3.0 do.
"""

from __future__ import annotations

from dataclasses import replace

from relpos.pretrained.family import ABSOLUTE, NO_CONV, NO_DECODER, SIZE, Family, Head, Key, Weight, linear

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
TRANSFORM = (
    *linear("head.narrow", "cls.predictions.transform.dense"),
    *linear("head.norm", "cls.predictions.transform.LayerNorm"),
)
BIAS, DECODER_BIAS, DECODER = "cls.predictions.bias", "cls.predictions.decoder.bias", "cls.predictions.decoder.weight"
HEAD = (*TRANSFORM, Weight("head.bias", BIAS, also=(DECODER_BIAS,)))
UNTIED = (*TRANSFORM, Weight("head.bias", DECODER_BIAS, also=(BIAS,)), Weight("head.table", DECODER))
CLASSIFIER = (*linear("pooler", "bert.pooler.dense"), *linear("classifier", "classifier"))

FAMILY = Family(
    model_type="bert",
    prefix="bert.",
    base="BertModel",
    settings={"size": SIZE, "position": ABSOLUTE, "conv": NO_CONV, "vocabulary": Key("vocab_size", 30522)},
    constants=NO_DECODER,
    encoder=(*EMBEDDINGS, POSITIONS),
    layer=LAYER,
    widen=(),
    pooler=linear("pooler", "pooler.dense"),
    heads=(
        Head("BertForMaskedLM", HEAD),
        Head("BertForMaskedLM", UNTIED, {"tied": False}),
        Head("BertForSequenceClassification", CLASSIFIER, {"kind": "classifier"}),
    ),
    unread=(r"cls\.seq_relationship\..*", r"cls\.predictions\.decoder\.weight", r".*\.position_ids"),
)

ERNIE = replace(
    FAMILY,
    model_type="ernie",
    prefix="ernie.",
    base="ErnieModel",
    constants=NO_DECODER | {"use_task_id": False},
    heads=(
        Head("ErnieForMaskedLM", HEAD),
        Head("ErnieForMaskedLM", UNTIED, {"tied": False}),
        Head(
            "ErnieForSequenceClassification",
            (*linear("pooler", "ernie.pooler.dense"), *linear("classifier", "classifier")),
            {"kind": "classifier"},
        ),
    ),
)
