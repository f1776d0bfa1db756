"""The families of published checkpoints by their `model_type`."""

from __future__ import annotations

from relpos.pretrained import bert, deberta, modernbert
from relpos.pretrained.family import Family

FAMILIES = {
    family.model_type: family
    for module in (bert, deberta, modernbert)
    for family in vars(module).values()
    if isinstance(family, Family)
}
"""`model_type` in config.json → how it is read and written. Of families whose weights have the same
names the first is the one to which files without a `model_type` belong."""
