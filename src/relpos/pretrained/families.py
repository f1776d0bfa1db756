"""The families of published checkpoints by their `model_type`."""

from __future__ import annotations

from relpos.pretrained import (
    albert,
    bert,
    convbert,
    deberta,
    distilbert,
    electra,
    modernbert,
    mpnet,
    roberta,
    roformer,
)
from relpos.pretrained.family import Family

_FAMILIES = (
    *(
        module.FAMILY
        for module in (albert, bert, convbert, distilbert, electra, mpnet, roberta, roformer)
    ),
    *(module.FAMILY for module in (modernbert, deberta)),
    *(bert.ERNIE, roberta.XLM_R, roberta.CAMEMBERT, roberta.DATA2VEC, roberta.LONGFORMER),
)
FAMILIES: dict[str, Family] = {family.model_type: family for family in _FAMILIES}
"""`model_type` in config.json → how it is read and written. Of families whose weights have the same
names the first is the one to which files without a `model_type` belong."""
