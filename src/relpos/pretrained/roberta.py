"""RoBERTa (Liu et al. 2019), XLM-R (Conneau et al. 2020), CamemBERT (Martin et al. 2020) and the
text encoder of data2vec (Baevski et al. 2022): BERT's form, and positions that begin after two
reserved rows.

Theirs counts only tokens that are not padding and adds the padding's id, which is 1: the first
token of a text has row 2 of 514. Ours drops the two reserved rows and counts all tokens of a row of
the batch, so that texts padded at the end have the same positions in both. The outputs at padding
differ, but no other token reads them. Texts padded in front, and texts that contain the padding's
id as a word, would have other positions here.
"""

from __future__ import annotations

from dataclasses import replace

from relpos.pretrained.bert import EMBEDDINGS, POSITIONS
from relpos.pretrained.bert import FAMILY as BERT
from relpos.pretrained.family import SIZE, ConfigKey, Family, classifier, masked_lm, weights

RESERVED = 2
POSITIONS_BEHIND = ConfigKey(
    "max_position_embeddings", 514, lambda rows: rows - RESERVED, lambda rows: rows + RESERVED
)

FAMILY = replace(
    BERT,
    model_type="roberta",
    prefix="roberta.",
    name="Roberta",
    vocabulary=50265,
    size=SIZE | {"max_positions": POSITIONS_BEHIND},
    constants={**BERT.constants, "pad_token_id": RESERVED - 1},
    encoder=(*EMBEDDINGS, replace(POSITIONS, reserved=RESERVED)),
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
    unread=(r"lm_head\.decoder\.weight", r".*\.position_ids"),
)


def _named(model_type: str, name: str, vocabulary: int, prefix: str = FAMILY.prefix) -> Family:
    """The same family under the names of other classes."""
    return replace(FAMILY, model_type=model_type, prefix=prefix, name=name, vocabulary=vocabulary)


XLM_R = _named("xlm-roberta", "XLMRoberta", 250002)
CAMEMBERT = _named("camembert", "Camembert", 30522)
DATA2VEC = _named("data2vec-text", "Data2VecText", 30522, prefix="data2vec_text.")
# Beltagy et al. 2020: only its position table is read, which has this form with 4,096 rows
LONGFORMER = replace(
    _named("longformer", "Longformer", 50265, prefix="longformer."),
    refused="its attention by windows cannot be expressed here; "
    "relpos.pretrained.checkpoint.position_table reads its positions",
)
