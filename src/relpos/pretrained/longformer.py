"""Longformer (Beltagy et al. 2020): its position table, of RoBERTa's form with 4,096 rows. Its attention is not expressed."""

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
