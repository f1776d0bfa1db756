"""Every formula as plain loops over tokens i and j in float64. Shares no code with the package.

A term is a function (scheme, layer, head, i, j, q, k) → number, with q and k (n, head_dim) of one sequence and head. Gradients come
from torch differentiating the loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Term = Callable[[Any, int, int, int, int, Tensor, Tensor], Tensor | float]


def read(kernel: Tensor, offset: int, outside: str) -> Tensor:
    """Entry of a kernel over −k..k, and what it is beyond."""
    k = (len(kernel) - 1) // 2
    if offset > k:
        return kernel[2 * k] if outside == "clamp" else 0 * kernel[0]
    if offset < -k:
        return kernel[0] if outside == "clamp" else 0 * kernel[0]
    return kernel[offset + k]


def dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum()


def none(scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor) -> float:
    return 0.0


def fixed(scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor) -> Tensor:
    """β_{j−i}"""
    return read(scheme.beta[layer, head], j - i, scheme.outside)


def _made(token: Tensor, table: Tensor, scaled: bool) -> Tensor:
    width = table.shape[1]
    divisor = math.sqrt(len(token)) if scaled else 1.0
    return torch.stack([dot(token, table[:, column]) / divisor for column in range(width)])


def dynamic(scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor) -> Tensor:
    """q_i · R[:, j−i] / √head_dim"""
    return read(_made(q[i], scheme.query[layer], scheme.scaled), j - i, scheme.outside)


def key(scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor) -> Tensor:
    """k_j · S[:, i−j] / √head_dim"""
    return read(_made(k[j], scheme.key[layer], scheme.scaled), i - j, scheme.outside)


def composite(*arguments: Any) -> Tensor:
    return fixed(*arguments) + dynamic(*arguments)


def composite_key(*arguments: Any) -> Tensor:
    return fixed(*arguments) + dynamic(*arguments) + key(*arguments)


TERMS: dict[str, Term] = {
    "NoPosition": none,
    "Absolute": none,
    "Sinusoidal": none,
    "Fixed": fixed,
    "Dynamic": dynamic,
    "Key": key,
    "Composite": composite,
    "CompositeKey": composite_key,
}


def sinusoid(position: int, channel: int, width: int) -> float:
    angle = position / 10000 ** (2 * (channel // 2) / width)
    return math.sin(angle) if channel % 2 == 0 else math.cos(angle)


def embedded(scheme: Any, n: int, width: int) -> Tensor | None:
    """(n, embedding) added to the words."""
    if type(scheme).__name__ == "Absolute":
        return torch.stack([scheme.table[position] for position in range(n)])
    if type(scheme).__name__ == "Sinusoidal":
        return torch.tensor([[sinusoid(p, c, width) for c in range(width)] for p in range(n)], dtype=torch.float64)
    return None


def attend(
    q: Tensor, k: Tensor, v: Tensor, add: Callable[[int, int], Any], scale: float, real: list[bool], value: Any = None
) -> Tensor:
    """One sequence and head: q, k, v (n, d_h) → y (n, d_h). `add(i, j)` is T_ij, `value(offset)` the row added to v_j."""
    rows = []
    for i in range(len(q)):
        keys = [j for j in range(len(k)) if real[j]]
        scores = [dot(q[i], k[j]) * scale + add(i, j) for j in keys]
        top = max(float(score.detach()) for score in scores)
        powers = [torch.exp(score - top) for score in scores]
        y = torch.zeros(v.shape[1], dtype=v.dtype)
        for j, power in zip(keys, powers, strict=True):
            y = y + power / sum(powers) * (v[j] if value is None else v[j] + value(j - i))
        rows.append(y)
    return torch.stack(rows)


def linear(x: Tensor, part: Any) -> Tensor:
    return part.weight @ x + part.bias


def norm(x: Tensor, part: Any) -> Tensor:
    mean = x.sum() / len(x)
    variance = ((x - mean) ** 2).sum() / len(x)
    return (x - mean) / torch.sqrt(variance + 1e-12) * part.weight + part.bias


def gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def encode(encoder: Any, ids: list[int], real: list[bool], types: list[int]) -> Tensor:
    """One sequence (n,) → (n, hidden): post-layer-norm BERT without dropout."""
    n, embedding = len(ids), encoder.embedding
    positions = embedded(encoder.position, n, encoder.shape.embedding)
    x = []
    for i in range(n):
        token = embedding.words.weight[ids[i]] + embedding.types.weight[types[i]]
        token = norm(token if positions is None else token + positions[i], embedding.norm)
        x.append(linear(token, embedding.widen) if hasattr(embedding.widen, "weight") else token)
    for number in range(encoder.shape.layers):
        x = _layer(encoder, encoder.layers[number % len(encoder.layers)], number, x, real)
    return torch.stack(x)


def _layer(encoder: Any, layer: Any, number: int, x: list[Tensor], real: list[bool]) -> list[Tensor]:
    heads, width = encoder.shape.heads, encoder.shape.head_dim
    term = TERMS[type(encoder.position).__name__]
    projected = torch.stack([linear(token, layer.attention.project) for token in x])
    parts = []
    for head in range(heads):
        q, k, v = (
            projected[:, part * heads * width + head * width : part * heads * width + (head + 1) * width] for part in range(3)
        )

        def add(i: int, j: int, head: int = head, q: Tensor = q, k: Tensor = k) -> Any:
            return term(encoder.position, number, head, i, j, q, k)

        parts.append(attend(q, k, v, add, 1 / math.sqrt(width), real))
    context = torch.cat(parts, 1)
    result = []
    for token, y in zip(x, context, strict=True):
        middle = norm(token + linear(y, layer.attention.output), layer.attention_norm)
        y = linear(gelu(linear(middle, layer.widen)), layer.narrow)
        result.append(norm(middle + y, layer.ffn_norm))
    return result


def logits(model: Any, hidden: Tensor) -> Tensor:
    """(hidden,) → (vocabulary,): the tied head."""
    words = model.encoder.embedding.words.weight
    x = norm(gelu(linear(hidden, model.head.narrow)), model.head.norm)
    return torch.stack([dot(x, words[token]) + model.head.bias[token] for token in range(len(words))])
