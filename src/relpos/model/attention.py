"""Multi-head attention with the holes of the equation: `position` fills them, a kernel computes the result."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from relpos.model import kernels
from relpos.model.conv import Conv
from relpos.model.dropout import Dropout
from relpos.model.position.base import Scheme
from relpos.model.shape import Shape


class Attention(nn.Module):
    """x (B, n, hidden) → (B, n, hidden), W_o included.

    One matrix makes all projections that neither the scheme does without nor the convolution takes over, in the order q, k, v.
    """

    def __init__(self, shape: Shape, needed: frozenset[str], conv: Conv, dropout: float, kernel: str) -> None:
        super().__init__()
        self.shape, self.kernel, self.conv = shape, kernel, conv
        self.names = [name for name in "qkv" if name in needed - conv.projections]
        width = shape.heads * shape.head_dim
        self.project = nn.Linear(shape.hidden, len(self.names) * width)
        self.output = nn.Linear(width, shape.hidden)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None, position: Scheme, layer: int, state: Any) -> Tensor:
        q, k, v = self.heads(x, mask)
        terms = position.terms(layer, q, k, state)
        content: tuple[Tensor | None, Tensor | None, Tensor] = (None, None, v)
        if position.scale is not None:
            turned = position.turn(layer, q, k, v, state)
            content = (turned[0] * position.scale, *turned[1:])
        kernel = kernels.select(self.kernel, terms, x.device, self.training)
        y = kernel.attention(*content, terms, mask, self.dropout.draw(layer)).transpose(1, 2).flatten(2)
        after = self.conv.after(v.transpose(1, 2).flatten(2), mask)
        return self.output(y if after is None else y + after)

    def heads(self, x: Tensor, mask: Tensor | None) -> tuple[Any, Any, Any]:
        """q, k, v (B, H, n, head_dim); None for one that the scheme does without."""
        made = self.conv.project(x, mask)
        if self.names:
            made.update(zip(self.names, self.project(x).chunk(len(self.names), -1), strict=True))
        split = (len(x), x.shape[1], self.shape.heads, self.shape.head_dim)
        q, k, v = (made[name].view(split).transpose(1, 2) if name in made else None for name in "qkv")
        return q, k, v
