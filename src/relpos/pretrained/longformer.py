"""Longformer (Beltagy et al. 2020): only its position table is read, which has RoBERTa's form with 4,096 rows."""

from __future__ import annotations

from dataclasses import replace

from relpos.pretrained.roberta import FAMILY as ROBERTA

FAMILY = replace(
    ROBERTA,
    model_type="longformer",
    prefix="longformer.",
    base="LongformerModel",
    refused="its attention by windows cannot be expressed here; relpos.pretrained.checkpoint.position_table reads its positions",
)
