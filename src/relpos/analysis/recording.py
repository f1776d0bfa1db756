"""What a position scheme is given and gives back, written down during one forward pass."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Call:
    """One pass through a layer; q, k (B, H, n, head_dim) as projected, None where the attention has none."""

    layer: int
    q: Tensor | None
    k: Tensor | None
    state: Any
    terms: Any


@torch.no_grad()
def record(encoder: Any, input_ids: Tensor) -> list[Call]:
    """Every pass through a layer that has scores, in evaluation mode; input_ids (B, n)."""
    position: Any = encoder.position
    calls: list[Call] = []
    fill = position.terms

    def spy(layer: int, q: Tensor | None, k: Tensor | None, state: Any) -> Any:
        calls.append(Call(layer, q, k, state, fill(layer, q, k, state)))
        return calls[-1].terms

    training = encoder.training
    position.terms = spy
    try:
        encoder.eval()
        encoder(input_ids)
    finally:
        encoder.train(training)
        with suppress(AttributeError):
            del position.terms
    return calls


def random_ids(encoder: Any, sequences: int, length: int) -> Tensor:
    """(sequences, length) of the vocabulary, always the same; shorter where the scheme ends before."""
    words = encoder.embedding.words
    longest = encoder.position.max_length
    shape = (sequences, length if longest is None else min(length, longest))
    generator = torch.Generator().manual_seed(0)
    return torch.randint(words.num_embeddings, shape, generator=generator).to(words.weight.device)


def added(terms: Any, n: int) -> Tensor | None:
    """T (1 or B, H, n, n): all that the terms add to the scores; None where they add nothing."""
    token = torch.arange(n)
    offsets = token[None, :] - token[:, None]
    parts: list[Tensor] = []
    if terms.offset is not None:
        parts.append(terms.offset.cpu()[:, offsets + n - 1][None])
    if terms.query is not None:
        parts.append(_read(terms.query.cpu(), offsets, terms.outside))
    if terms.key is not None:
        parts.append(_read(terms.key.cpu(), offsets, terms.outside).transpose(-1, -2))  # [j, i] at i − j
    if terms.dense is not None:
        parts.append(terms.dense.cpu())
    total: Tensor | None = None
    for part in parts:
        total = part if total is None else total + part
    return total


def _read(kernel: Tensor, offsets: Tensor, outside: str) -> Tensor:
    """kernel (B, H, n, 2k+1) of each token, read at offsets (n, n) → (B, H, n, n)."""
    k = kernel.shape[-1] // 2
    read = kernel[:, :, torch.arange(len(offsets))[:, None], offsets.clamp(-k, k) + k]
    return read if outside == "clamp" else read * (offsets.abs() <= k).to(read.dtype)
