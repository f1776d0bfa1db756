"""Published checkpoints: folders as `transformers` writes them, read and written without it.

A family is a file with one description, see `family.py`; another one is such a file and its name below.
"""

from __future__ import annotations

from relpos.pretrained import albert, bert, convbert, electra, longformer, roberta, roformer
from relpos.pretrained.family import Family

_MODULES = (albert, bert, convbert, electra, longformer, roberta, roformer)
FAMILIES: dict[str, Family] = {family.model_type: family for family in (*(module.FAMILY for module in _MODULES), roberta.XLM_R)}
"""`model_type` in config.json → how it is read and written."""
