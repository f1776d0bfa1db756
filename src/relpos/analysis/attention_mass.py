"""How much attention goes to which offset, by layer and head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from relpos.analysis.likelihood import exact
from relpos.model.encoder import encoder_of

REACH = 8
_AT_ONCE = 32


def attention_mass(model: Any, ids: Tensor) -> dict[str, Any]:
    """{"offsets": [−8, …, 8], "mass": (layers, heads, 17), "before": (layers, heads), "after": …}: the mean share of a token's
    attention that goes to each offset (+1 = the next token), and to all tokens further away on either side. They add up to 1.

    A layer whose heads have no scores (lightweight and dynamic convolution) has an empty list of heads.

    Args:
        model: a network with an `encoder`, or an encoder itself.
        ids: (texts, n), with [CLS] and [SEP].
    """
    encoder = encoder_of(model)
    n = ids.shape[1]
    device = next(model.parameters()).device
    sums: list[Tensor | int] = [0] * encoder.shape.layers
    with exact(model):
        for part in ids.split(_AT_ONCE):
            maps: list[Tensor] = []
            encoder(part.to(device), maps=maps)
            for layer, p in enumerate(maps):
                sums[layer] = sums[layer] + _by_offset(p)
    reach = min(REACH, n - 1)
    # Every token is a query once, so that the shares of all offsets add up to 1.
    middle, tokens = n - 1, len(ids) * n
    rows = [(total / tokens).cpu() if isinstance(total, Tensor) else torch.zeros(0, 2 * n - 1) for total in sums]
    return {
        "offsets": list(range(-reach, reach + 1)),
        "mass": [row[:, middle - reach : middle + reach + 1].tolist() for row in rows],
        "before": [row[:, : middle - reach].sum(1).tolist() for row in rows],
        "after": [row[:, middle + reach + 1 :].sum(1).tolist() for row in rows],
    }


def _by_offset(p: Tensor) -> Tensor:
    """p (B, H, n, n) → (H, 2n − 1): summed over texts and queries, by key minus query."""
    # In float64: thousands of small shares are added.
    total = p.double().sum(0)
    n = total.shape[-1]
    token = torch.arange(n, device=p.device)
    column = (token[None, :] - token[:, None] + n - 1).expand_as(total)
    return total.new_zeros(len(total), 2 * n - 1).scatter_add_(1, column.flatten(1), total.flatten(1))
