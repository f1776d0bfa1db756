"""How many floating-point operations a pass of a network needs, from its sizes alone: an estimate,
in which only matrix products are counted, and every sequence as if it had the full length."""

from __future__ import annotations

from relpos.model.architecture import Size


def forward(size: Size, length: int, vocabulary: int = 0, predicted: float = 0.0) -> float:
    """Operations of a forward pass, a token: 2 (4h² + 2hf) + 4nh a layer, the embedding's
    projection, the head at predicted tokens. A gated feed-forward network has 3hf in place of
    2hf."""
    hidden, embedding = size.hidden, size.embedding
    maps = 3 if size.glu else 2
    layer = 2 * (4 * hidden**2 + maps * hidden * size.ffn) + 4 * length * hidden
    head = predicted * 2 * (hidden * embedding + embedding * vocabulary) if vocabulary else 0.0
    projection = 2 * embedding * hidden * (embedding != hidden)
    return float(size.layers * layer + projection + head)
