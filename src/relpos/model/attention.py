"""Multi-head attention with the holes of the equation: `position` fills them, an attention kernel
computes the result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor, cat, nn
from torch.nn import functional
from torch.nn.functional import pad

from relpos.model import kernels
from relpos.model.block import Block, normed
from relpos.model.conv import Conv
from relpos.model.dropout import Draw, Dropout
from relpos.model.kernels import sweeps
from relpos.model.position.base import Input, Scheme
from relpos.model.shape import Heads, Mask, Shape, mapped
from relpos.model.tokens import Tokens, side_by_side


class LayerCall(NamedTuple):
    """What one pass through a layer is given besides x.

    Args:
        layer: number of the pass, from 0; where layers share their weights, each pass has its own.
        position: the scheme of the network.
        state: what `position.prepare` has computed for this forward pass.
        mask: (B, n) true at real tokens; None: all are real.
        held: the tokens that x holds.
        kept: the tokens at which the layer's output is needed.
        causal: whether token i sees the tokens j ≤ i alone.
        maps: a list to which the attention adds (B, heads, n, n): how much each token reads of
            each, dropout included.
    """

    layer: int
    position: Scheme
    state: Any
    mask: Mask | None
    held: Tokens
    kept: Tokens
    causal: bool = False
    maps: list[Tensor] | None = None


class Attention(nn.Module):
    """x of the tokens `held` → the same of the tokens `kept`, W_o included.

    One matrix makes all projections that the scheme needs and the convolution does not make itself,
    in the order q, k, v. The convolution may replace some heads, the last ones: these have values,
    but neither queries nor keys.
    """

    def __init__(
        self,
        shape: Shape,
        needed: frozenset[str],
        conv: Conv,
        block: Block,
        kernel: str,
    ) -> None:
        super().__init__()
        self.shape, self.kernel, self.conv, self.scored = shape, kernel, conv, conv.scored_heads
        scored = self.scored * shape.head_dim
        width = shape.heads * shape.head_dim
        widths = {"q": scored, "k": scored, "v": width}
        own = needed - conv.projections
        self.widths = {name: widths[name] for name in widths if name in own}
        if self.widths:
            self.project = nn.Linear(shape.hidden, sum(self.widths.values()), block.bias)
        self.output = nn.Linear(width, shape.hidden, block.bias)
        lengthless = sorted(needed & {"q", "k"}) if block.qk_norm and scored else []
        self.norms = nn.ModuleDict({name: block.norm_of(shape.head_dim) for name in lengthless})
        self.dropout = Dropout(block.attention_dropout)
        self.ran: str | None = None  # the attention kernel of the last forward pass

    def forward(
        self, x: Float[Tensor, "*tokens hidden"], call: LayerCall, biased: bool = True,
    ) -> Float[Tensor, "*kept hidden"]:  # fmt: skip
        """Without the bias of W_o where it is not `biased`."""
        x = convolved(self.conv, "input", x, x, call)
        in_one_row = self.in_one_row(x, call)
        q, k, v = self.heads(x, call, in_one_row)
        draw = self.dropout.draw(call.layer)
        if self.scored:
            given = Input(x, call.held, call.mask, self.maps)
            call = call._replace(state=call.position.see(call.layer, given, call.state))
        if self.scored == self.shape.heads:
            y = self.attend(q, k, v, call, draw, in_one_row)
        elif self.scored == 0:
            y = self.conv.heads(call.held.spread(x), q, v, call.mask, draw.beside())
        else:
            first, last = v.split([self.scored, self.shape.heads - self.scored], 1)
            y = self.attend(q, k, first, call, draw)
            # Masks of their own (`beside`): dropout of these heads is not that of the first ones.
            y = cat((y, self.conv.heads(call.held.spread(x), q, last, call.mask, draw.beside())), 1)
        y = y.transpose(1, 2).flatten(2)
        if in_one_row:
            y = call.kept.among(call.held, y.flatten(0, 1))
        else:
            after = self.conv.after(v.transpose(1, 2).flatten(2), call.mask)
            y = call.kept.take(y if after is None else y + after)
        return (
            sweeps.linear(y, self.output, self.kernel, self.training)
            if biased
            else functional.linear(y, self.output.weight)
        )

    def in_one_row(self, x: Float[Tensor, "*tokens hidden"], call: LayerCall) -> bool:
        """Whether q, k and v stay as they are computed, one row of the tokens that are held: an
        attention kernel knows where in it each sequence begins, and nobody else needs to."""
        alone = (
            call.position.by_token and self.conv.by_token and not call.causal and call.maps is None
        )
        return (
            alone
            and call.held.starts is not None
            and call.mask is not None
            and kernels.packs(self.kernel, x, call.held.n)
        )

    def attend(
        self,
        q: Any,
        k: Any,
        v: Heads,
        call: LayerCall,
        dropout: Draw,
        in_one_row: bool = False,
    ) -> Heads:
        """The heads that have scores: q, k, v (B, scored, n, head_dim), or (1, scored, held,
        head_dim) → the same shape."""
        position, layer = call.position, call.layer
        terms = position.terms(layer, q, k, call.state)
        scale = position.scale
        spare = 0
        if scale is None:
            q = k = None
        else:
            q, k, v = position.split(layer, *position.turn(layer, q, k, v, call.state))
            spare = q.shape[-1] - v.shape[-1]
        # attention kernels know one width: zeros make the values as wide, and are cut off what
        # leaves the kernel
        if spare:
            v = pad(v, (0, spare))
            terms = replace(
                terms,
                value=None if terms.value is None else pad(terms.value, (0, spare)),
            )
        # Last, so that no scheme needs to know of it.
        if call.causal:
            terms = terms.causal(v)
        factor = 1.0 if scale is None else scale
        held = call.held if in_one_row else None
        y, self.ran = kernels.attend(
            self.kernel,
            q,
            k,
            v,
            terms,
            call.mask,
            dropout,
            self.training,
            factor,
            call.maps,
            held,
        )
        y = y[..., :-spare] if spare else y
        # Heads that the scheme has split stand side by side: their halves become one head again.
        return (
            y
            if y.shape[1] == self.scored
            else y.unflatten(1, (self.scored, -1)).transpose(2, 3).flatten(3)
        )

    def maps(self, x: Float[Tensor, "*tokens hidden"]) -> dict[str, Float[Tensor, "*tokens _"]]:
        """q, k, v side by side of all heads, those for which there is a linear map here."""
        return (
            dict(
                zip(self.widths, self.project(x).split(list(self.widths.values()), -1), strict=True)
            )
            if self.widths
            else {}
        )

    def heads(
        self,
        x: Float[Tensor, "*tokens hidden"],
        call: LayerCall,
        in_one_row: bool,
    ) -> tuple[Any, Any, Any]:
        """q, k (B, scored, n, head_dim), v (B, H, n, head_dim), or (1, …, held, head_dim) in one
        row; None for those that neither scheme nor convolution needs."""
        held = call.held
        projected = self.conv.project(held.spread(x), call.mask) if self.conv.projections else {}
        if self.widths:
            y = sweeps.linear(x, self.project, self.kernel, self.training)
            parts = side_by_side(
                y[None] if in_one_row else held.spread(y),
                list(self.widths.values()),
            )
            projected.update(zip(self.widths, parts, strict=True))
        # In the order of the maps: a set's order is another in each process, and with it the last
        # bits of the gradient of x.
        for name in [name for name in projected if name in self.conv.places]:
            projected[name] = self.conv.act(name, projected[name], held.spread(x), call.mask)
        by_head = {name: x.unflatten(2, (-1, self.shape.head_dim)) for name, x in projected.items()}
        by_head |= {name: normed(by_head[name], norm) for name, norm in self.norms.items()}
        q, k, v = mapped(lambda x: x.transpose(1, 2), *map(by_head.get, "qkv"))
        return q, k, v


def convolved(
    conv: Conv,
    place: str,
    y: Float[Tensor, "*tokens width"],
    x: Float[Tensor, "*tokens hidden"],
    call: LayerCall,
) -> Float[Tensor, "*tokens width"]:
    """`conv.act` on the vectors of the tokens `call.held`; where nothing acts, y itself."""
    if place not in conv.places:
        return y
    return call.held.take(conv.act(place, call.held.spread(y), call.held.spread(x), call.mask))


def kernels_used(model: nn.Module) -> list[str]:
    """The attention kernels that computed the last forward pass of a network, by name."""
    return sorted(
        {part.ran for part in model.modules() if isinstance(part, Attention) and part.ran}
    )
