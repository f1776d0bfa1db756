"""Published checkpoints: folders as `transformers` writes them, read and written without it.

A family is a file with one description, see `family.py`; another one is such a file and its name below.
"""

from __future__ import annotations

from relpos.pretrained import albert, bert
from relpos.pretrained.family import Family

FAMILIES: dict[str, Family] = {module.FAMILY.model_type: module.FAMILY for module in (albert, bert)}
"""`model_type` in config.json → how it is read and written."""
