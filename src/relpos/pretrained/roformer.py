"""RoFormer (Su et al. 2021): rotary positions, neighbouring channels paired as ours are."""

from __future__ import annotations

from dataclasses import replace

from relpos.pretrained.bert import EMBEDDINGS, LAYER
from relpos.pretrained.bert import FAMILY as BERT
from relpos.pretrained.electra import FAMILY as ELECTRA
from relpos.pretrained.family import SIZE, Family, Key, linear

_ROPE = {"_target_": "relpos.model.position.Rope", "base": 10000.0, "values": Key("rotary_value", False)}
_SIZE = SIZE | {"embedding": Key("embedding_size", 768), "max_positions": Key("max_position_embeddings", 1536)}
_MASKED, _UNTIED = (replace(head, architecture="RoFormerForMaskedLM") for head in BERT.heads[:2])

FAMILY = Family(
    model_type="roformer",
    prefix="roformer.",
    base="RoFormerModel",
    words=BERT.words | {"size": _SIZE, "position": _ROPE, "vocabulary": Key("vocab_size", 50000)},
    constants=BERT.constants,
    encoder=EMBEDDINGS,
    layer=LAYER,
    widen=ELECTRA.widen,
    pooler=linear("pooler", "pooler.dense"),
    heads=(_MASKED, _UNTIED),
    unread=(*BERT.unread, r".*embed_positions\.weight"),
)
