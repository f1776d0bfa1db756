"""The families of published checkpoints by their `model_type`."""

from __future__ import annotations

from relpos.pretrained import albert, bert, convbert, electra, longformer, roberta, roformer
from relpos.pretrained.family import Family

_MODULES = (albert, bert, convbert, electra, longformer, roberta, roformer)
FAMILIES: dict[str, Family] = {family.model_type: family for family in (*(module.FAMILY for module in _MODULES), roberta.XLM_R)}
"""`model_type` in config.json → how it is read and written."""
