"""Multi-head attention with the holes of the equation: `position` fills them, an attention kernel computes the result."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor, cat, nn

from relpos.model import kernels
from relpos.model.conv import Conv
from relpos.model.dropout import Draw, Dropout
from relpos.model.position.base import Scheme
from relpos.model.shape import Heads, Mask, Shape
from relpos.model.tokens import Tokens


class Attention(nn.Module):
    """x of the tokens `held` → the same of the tokens `kept`, W_o included.

    One matrix makes all projections that the scheme needs and the convolution does not make itself, in the order q, k, v.
    The convolution may replace some heads, the last ones: these have values, but neither queries nor keys.
    """

    def __init__(self, shape: Shape, needed: frozenset[str], conv: Conv, dropout: float, kernel: str) -> None:
        super().__init__()
        self.shape, self.kernel, self.conv, self.scored = shape, kernel, conv, conv.scored_heads
        scored = self.scored * shape.head_dim
        width = shape.heads * shape.head_dim
        self.widths = {name: width if name == "v" else scored for name in "qkv" if name in needed - conv.projections}
        if self.widths:
            self.project = nn.Linear(shape.hidden, sum(self.widths.values()))
        self.output = nn.Linear(width, shape.hidden)
        self.dropout = Dropout(dropout)
        self.ran: str | None = None  # the attention kernel of the last forward pass

    def forward(
        self,
        x: Float[Tensor, "*tokens hidden"],
        mask: Mask | None,
        position: Scheme,
        layer: int,
        state: Any,
        held: Tokens,
        kept: Tokens,
    ) -> Float[Tensor, "*kept hidden"]:
        q, k, v = self.heads(x, mask, held)
        draw = self.dropout.draw(layer)
        if self.scored == self.shape.heads:
            y = self.attend(q, k, v, mask, position, layer, state, draw)
        elif self.scored == 0:
            y = self.conv.heads(held.spread(x), q, v, mask, draw.beside())
        else:
            first, last = v.split([self.scored, self.shape.heads - self.scored], 1)
            y = self.attend(q, k, first, mask, position, layer, state, draw)
            y = cat((y, self.conv.heads(held.spread(x), q, last, mask, draw.beside())), 1)
        y = y.transpose(1, 2).flatten(2)
        after = self.conv.after(v.transpose(1, 2).flatten(2), mask)
        return self.output(kept.take(y if after is None else y + after))

    def attend(self, q: Any, k: Any, v: Heads, mask: Mask | None, position: Scheme, layer: int, state: Any, dropout: Draw) -> Heads:
        """The heads that have scores: q, k, v (B, scored, n, head_dim) → the same shape."""
        terms = position.terms(layer, q, k, state)
        content: tuple[Heads | None, Heads | None, Heads] = (None, None, v)
        if position.scale is not None:
            turned = position.turn(layer, q, k, v, state)
            content = (turned[0] * position.scale, *turned[1:])
        kernel = kernels.select(self.kernel, terms, v, self.training, position.scale is not None)
        self.ran = kernels.name_of(kernel)
        return kernel.attention(*content, terms, mask, dropout)

    def heads(self, x: Float[Tensor, "*tokens hidden"], mask: Mask | None, held: Tokens) -> tuple[Any, Any, Any]:
        """q, k (B, scored, n, head_dim), v (B, H, n, head_dim); None for those that neither scheme nor convolution needs."""
        made = self.conv.project(held.spread(x), mask) if self.conv.projections else {}
        if self.widths:
            made.update(zip(self.widths, held.spread(self.project(x)).split(list(self.widths.values()), -1), strict=True))
        split = (held.batch, held.n, -1, self.shape.head_dim)
        q, k, v = (made[name].view(split).transpose(1, 2) if name in made else None for name in "qkv")
        return q, k, v


def kernels_used(model: nn.Module) -> list[str]:
    """The attention kernels that computed the last forward pass of a network, by name."""
    return sorted({part.ran for part in model.modules() if isinstance(part, Attention) and part.ran})
