"""BERT (Devlin et al. 2019), and every checkpoint of its form: MiniLM, the encoders of
sentence-transformers, …

ERNIE (Sun et al. 2019) computes the same unless it adds an embedding of the task, as ERNIE 2.0 and
3.0 do.
"""

from __future__ import annotations

from dataclasses import replace

from relpos.pretrained.family import NO_DECODER, Family, Weight, classifier, masked_lm, weights

EMBEDDINGS = weights(
    """
    embedding.words.weight  embeddings.word_embeddings.weight
    embedding.types.weight  embeddings.token_type_embeddings.weight
    embedding.norm          embeddings.LayerNorm
    """
)
POSITIONS = Weight("position.table", "embeddings.position_embeddings.weight")
AFTER_ATTENTION = weights(
    """
    attention.output  attention.output.dense
    attention_norm    attention.output.LayerNorm
    widen             intermediate.dense
    narrow            output.dense
    ffn_norm          output.LayerNorm
    """,
    ours="layers.{n}.",
    theirs="encoder.layer.{n}.",
)
LAYER = (
    *weights(
        "attention.project query key value", "layers.{n}.", "encoder.layer.{n}.attention.self."
    ),
    *AFTER_ATTENTION,
)
MASKED_LM = masked_lm(
    weights("head.narrow dense\nhead.norm LayerNorm", theirs="cls.predictions.transform."),
    "cls.predictions.bias",
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
)

FAMILY = Family(
    model_type="bert",
    prefix="bert.",
    name="Bert",
    vocabulary=30522,
    encoder=(*EMBEDDINGS, POSITIONS),
    layer=LAYER,
    pooler=weights("pooler pooler.dense"),
    heads=(*MASKED_LM, classifier("bert.pooler.dense")),
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
    name="Ernie",
    constants=NO_DECODER | {"use_task_id": False},
    heads=(*MASKED_LM, classifier("ernie.pooler.dense")),
)
