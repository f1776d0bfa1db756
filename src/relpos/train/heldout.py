"""Held-out loss of a masked language model by the length of its input."""

from __future__ import annotations

import math
from typing import Any

import torch

from relpos.data.heldout_windows import MaskedText, heldout_windows
from relpos.errors import RelposError
from relpos.model.heads import MaskedLM
from relpos.model.precision import autocast
from relpos.train.move import move


@torch.no_grad()
def loss_by_length(model: MaskedLM, texts: list[MaskedText], lengths: list[int], precision: str) -> dict[int, dict[str, Any]]:
    """{length: {loss, perplexity, accuracy, predicted}}, or {length: {refused: why}} where the position scheme cannot serve it."""
    return {length: _scores(model, texts, length, precision) for length in lengths}


def _scores(model: MaskedLM, texts: list[MaskedText], length: int, precision: str) -> dict[str, Any]:
    try:
        model.encoder.position.check_length(length)
    except RelposError as error:
        return {"refused": str(error)}
    device = next(model.parameters()).device
    model.eval()
    loss, predicted, correct = 0.0, 0, 0
    for batch in heldout_windows(texts, length):
        batch = move(batch, device)
        with autocast(precision, device):
            sums = model.loss_sum(batch.input_ids, batch.labels, batch.attention_mask)
        loss, predicted, correct = loss + float(sums[0]), predicted + int(sums[1]), correct + int(sums[2])
    mean = loss / predicted
    return {"loss": mean, "perplexity": math.exp(mean), "accuracy": correct / predicted, "predicted": predicted}
