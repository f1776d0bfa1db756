"""The encoder: post-layer-norm BERT with factorised embeddings, as Chang et al. ran it, and the
choices of later encoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from relpos.errors import RelposError
from relpos.model import kernels
from relpos.model.architecture import Architecture, Size
from relpos.model.attention import Attention, LayerCall, convolved
from relpos.model.block import Block, add_norm, normed
from relpos.model.conv import Conv, NoConv
from relpos.model.dropout import Draw, Dropout
from relpos.model.kernels import layer_cpu, sweeps
from relpos.model.position.base import Position
from relpos.model.position.merge import name_of
from relpos.model.precision import compute_dtype
from relpos.model.shape import Ids, Mask, Shape
from relpos.model.tokens import Tokens
from relpos.ranges import Width, checked

# numbers of words, or vectors in place of their rows of the table
Words = Ids | Float[Tensor, "batch n embedding"]


class Embedding(nn.Module):
    """ids (B, n) → (B, n, hidden), or the rows of some tokens: words + token types + positions →
    norm over the embedding's width → dropout → linear map to the hidden width. The map exists only
    where the widths differ, and nothing follows it. With `token_types=0` nothing is added for the
    types, as in DistilBERT and MPNet.
    """

    def __init__(
        self,
        shape: Shape,
        vocabulary: int,
        token_types: int,
        block: Block,
        kernel: str,
    ) -> None:
        super().__init__()
        self.kernel, self.plain = kernel, block.plain
        self.words = nn.Embedding(vocabulary, shape.embedding)
        self.types = nn.Embedding(token_types, shape.embedding) if token_types else None
        self.norm: Any = block.norm_of(shape.embedding)
        self.dropout = Dropout(block.dropout)
        self.widen = (
            nn.Identity()
            if shape.embedding == shape.hidden
            else nn.Linear(shape.embedding, shape.hidden, block.bias)
        )

    def forward(
        self,
        words: Words,
        token_types: Ids | None,
        positions: Float[Tensor, "n embedding"] | None,
        held: Tokens,
    ) -> Float[Tensor, "*tokens hidden"]:
        x = words if words.is_floating_point() else self.words(words)
        beside: list[Tensor] = []
        if self.types is not None:
            # A network with one type, such as RoBERTa, does not see which sentence a token belongs
            # to.
            beside.append(
                self.types.weight[0]
                if token_types is None or len(self.types.weight) == 1
                else self.types(token_types)
            )
        if positions is not None:
            beside.append(positions.to(x.dtype))
        swept = x.device.type != "cpu" and sweeps.serve(self.kernel, x, self.training)
        if beside and self.plain and swept:
            dtype = compute_dtype(x)
            x, _ = sweeps.add_norm(
                x.to(dtype),
                reduce(torch.add, beside).to(dtype).expand_as(x),
                self.norm,
                Draw(0.0, 0),
            )
        else:
            x = self.norm(reduce(torch.add, beside, x))
        # Under autocast the norm gives float32; what follows is in the number format of matrix
        # products.
        x = held.take(sweeps.dropped(self.kernel, x.to(compute_dtype(x)), self.dropout.draw()))
        return (
            sweeps.linear(x, self.widen, self.kernel, self.training)
            if isinstance(self.widen, nn.Linear)
            else x
        )


class Layer(nn.Module):
    """x ← N(x + drop(attention(x))); x ← N(x + drop(W_2 act(W_1 x))).

    With `norm_first` x ← x + drop(attention(N(x))); x ← x + drop(W_2 act(W_1 N(x))). `Block` says
    what N and act are.

    Args:
        normed: x comes from a norm, so that with `norm_first` the attention has none of its own, as
            in ModernBERT's first layer.
    """

    def __init__(
        self,
        shape: Shape,
        attention: Attention,
        ffn: int,
        block: Block,
        normed: bool = False,
    ) -> None:
        super().__init__()
        self.attention, self.block = attention, block
        self.attention_dropout = Dropout(block.dropout)
        self.attention_norm = (
            nn.Identity() if block.norm_first and normed else block.norm_of(shape.hidden)
        )
        self.widen, self.narrow = (
            nn.Linear(shape.hidden, block.inner(ffn), block.bias),
            nn.Linear(ffn, shape.hidden, block.bias),
        )
        self.ffn_dropout = Dropout(block.dropout)
        self.ffn_norm = block.norm_of(shape.hidden)

    def forward(
        self,
        x: Float[Tensor, "*tokens hidden"],
        read: Float[Tensor, "*tokens hidden"],
        call: LayerCall,
    ) -> tuple[Float[Tensor, "*kept hidden"], Float[Tensor, "*kept hidden"]]:
        """x of the tokens `held` → the layer's output at the tokens `kept`, for which alone all
        after it is computed; both twice, for the next sum and for what is computed beside it, see
        `sweeps.add_norm`."""
        layer, wanted, conv, first = (
            call.layer,
            call.kept,
            self.attention.conv,
            self.block.norm_first,
        )
        if layer_cpu.serves(self, x, call):
            y = layer_cpu.layer_of(self, x, call)
            if y is not None:
                return y, y
        if conv.places & {"ffn", "inner"}:  # there the tokens that are wanted see their neighbours
            call = call._replace(kept=call.held)
        kept = call.kept

        swept = self.block.plain and sweeps.serve(self.attention.kernel, x, self.training)
        # the sums with the residual stream add the biases of the maps before them
        apart = swept and x.device.type != "cpu"

        def add(y: Tensor, norm: Any, draw: Draw, *beside: Tensor) -> tuple[Tensor, Tensor]:
            """The residual stream behind a sum, for the next sum and for what is computed beside
            it."""
            if swept and not first:
                return sweeps.add_norm(x, y, norm, draw, *beside)
            total = (
                sweeps.dropped(self.attention.kernel, y, draw, x)
                if first
                else add_norm(x, y, norm, draw)
            )
            return total, total

        y = self.attention(normed(read, self.attention_norm) if first else read, call, not apart)
        # The residual stream is cut to the same tokens as the attention's output; only in the last
        # layer are there fewer.
        x = kept.among(call.held, x)
        # A mask depends on the place in the batch, so that it is the same whichever tokens are
        # computed.
        draw = self.attention_dropout.draw(layer)._replace(tokens=kept)
        x, read = add(
            y,
            self.attention_norm,
            draw,
            *((self.attention.output.bias,) if apart else ()),
        )
        # With norms behind the sums x is normed already.
        read = normed(read, self.ffn_norm) if first else read
        y = convolved(conv, "ffn", read, read, call)
        beside: tuple[Tensor, ...] = ()
        if "inner" in conv.places:
            y = self.narrow(
                wanted.among(
                    kept,
                    self.block.activate(convolved(conv, "inner", self.widen(y), y, call)),
                )
            )
        # The single passes know the exact GELU without a gate.
        elif swept and self.block.activation == "gelu" and not self.block.glu:
            y = sweeps.feed_forward(wanted.among(kept, y), self.widen, self.narrow, not apart)
            beside = (self.narrow.bias,) if apart else ()
        else:
            y = self.narrow(self.block.activate(self.widen(wanted.among(kept, y))))
        x = wanted.among(kept, x)
        draw = self.ffn_dropout.draw(layer)._replace(tokens=wanted)
        return add(y, self.ffn_norm, draw, *beside)


class Encoder(nn.Module):
    """ids (B, n) → (B, n, hidden). `position` and `conv` are called with the Shape.

    `pooler` is a linear map (hidden → hidden) that published checkpoints have for a classifier, and
    that only a classifier reads; encoders that are pre-trained here have none.

    Raises:
        RelposError: `hidden` is not a multiple of `heads`; the position scheme and the convolution
            mean nothing together; or one of them reads tokens on the right of a token, and the
            attention is causal.
    """

    architecture: Architecture
    pooler: nn.Linear | None

    @checked
    def __init__(
        self,
        size: Size,
        position: Position,
        conv: Callable[[Shape], Conv] | None = None,
        *,
        vocabulary: Width,
        kernel: kernels.Name = "auto",
    ) -> None:
        super().__init__()
        hidden, embedding, heads, ffn = size.hidden, size.embedding, size.heads, size.ffn
        if hidden % heads:
            raise RelposError(f"hidden={hidden} is not a multiple of heads={heads}")
        self.activation, self.kernel, self.causal = size.activation, kernel, size.causal
        own = {part.name: getattr(size, part.name) for part in fields(Block)}
        self.block = block = Block(**own)
        self.shape = shape = Shape(
            heads,
            hidden // heads,
            hidden,
            embedding,
            size.layers,
            size.max_positions,
            block.inner(ffn),
        )
        # Whatever a scheme or a convolution draws, the rest of the network draws the same: the rows
        # of a table are paired.
        with torch.random.fork_rng(devices=[]):
            # A seed of its own, so that the convolution does not draw the same numbers as the
            # scheme.
            torch.default_generator.manual_seed(int(torch.randint(1 << 62, (), device="cpu")))
            number = 1 if size.share_layers else size.layers
            convs = [(conv or NoConv)(shape) for _ in range(number)]
        with torch.random.fork_rng(devices=[]):
            self.position = position(replace(shape, heads=convs[0].scored_heads or heads))
        convs[0].check_position(self.position)
        if self.causal and (self.position.reads_ahead or convs[0].reads_ahead):
            ahead = (
                f"position {name_of(self.position)}"
                if self.position.reads_ahead
                else f"conv {convs[0].name}"
            )
            raise RelposError(
                f"size.attention=causal: {ahead} reads what stands on the right of a token"
            )
        self.embedding = Embedding(shape, vocabulary, size.token_types, block, kernel)

        def layer(number: int, conv: Conv) -> Layer:
            attention = Attention(shape, self.position.projections, conv, block, kernel)
            # Behind a map that widens the embedding stands no norm, and a shared layer reads the
            # outputs of others, too.
            return Layer(
                shape,
                attention,
                ffn,
                block,
                normed=number == 0 and embedding == hidden and not size.share_layers,
            )

        self.layers = nn.ModuleList(layer(number, conv) for number, conv in enumerate(convs))
        self.norm = block.norm_of(hidden) if size.norm_first else nn.Identity()
        # Known as a module from the start, so that a published checkpoint may put one in its place.
        self.register_module("pooler", None)

    @property
    def by_token(self) -> bool:
        """Whether all its layers compute the tokens that are held and no padding."""
        layers: Any = self.layers
        convs = all(layer.attention.conv.by_token for layer in layers)
        return convs and self.position.by_token and not self.causal

    def forward(
        self,
        input_ids: Words,
        attention_mask: Shaped[Tensor, "batch n"] | None = None,
        token_types: Ids | None = None,
        at: Int[Tensor, "kept"] | None = None,
        hidden_states: bool = False,
        held: Tokens | None = None,
        maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "*kept hidden"] | list[Float[Tensor, "batch n hidden"]]:
        """The output of the last layer.

        Args:
            attention_mask: 1 at real tokens; None: all are real.
            token_types: None: all of type 0.
            at: return only the outputs at these tokens, (kept, hidden), which saves most of the
                last layer's work, and that for padding. Token j of row i is i · n + j; none may be
                there twice.
            hidden_states: return a list instead: the embeddings, then the output of each layer
                (layers + 1 tensors); without `at` or `held`.
            held: the tokens that are computed, and returned where there is no `at`: the real ones,
                those of `at` and any others.
                None: with `at` they are counted, for which a GPU is waited for; without it all are
                    computed.
            maps: a list, to which each layer adds its attention map, see `LayerCall`.
        """
        batch, n = input_ids.shape[:2]
        self.position.check_length(n)
        mask = None if attention_mask is None else attention_mask.to(torch.bool)
        if held is None:
            held = Tokens(batch, n) if at is None else self._needed(mask, at, batch, n)
        kept = held if at is None else Tokens(batch, n, at)
        x = read = self.embedding(input_ids, token_types, self.position.embed(n), held)
        call = LayerCall(
            0,
            self.position,
            self.position.prepare(n),
            mask,
            held,
            held,
            self.causal,
            maps,
        )
        states = [x]
        for number in range(self.shape.layers):
            last = number == self.shape.layers - 1
            # Shared layers are one module that is passed several times.
            layer = self.layers[number % len(self.layers)]
            x, read = layer(x, read, call._replace(layer=number, kept=kept if last else held))
            if last:
                x = normed(x, self.norm)
            if hidden_states:
                states.append(x)
        return states if hidden_states else x

    def _needed(self, mask: Mask | None, at: Int[Tensor, "kept"], batch: int, n: int) -> Tokens:
        """The real tokens and those at `at`; all tokens with the plain kernel."""
        if mask is None or self.kernel == "eager" or torch.compiler.is_compiling():
            return Tokens(batch, n)
        # A token that is asked for is computed even if it is padding: its output exists without
        # `at`, too.
        needed = mask.flatten().index_fill(0, at, True).view(batch, n)
        places = needed.flatten().nonzero().squeeze(1)
        if not 0 < len(places) < batch * n:
            return Tokens(batch, n)
        if needed.device.type == "cpu" and bool((needed[:, 1:] <= needed[:, :-1]).all()):
            return Tokens.first(batch, n, places)
        return Tokens(batch, n, places)


def encoder_of(model: nn.Module) -> Encoder:
    """The encoder of a network with a head; an encoder is its own."""
    return model if isinstance(model, Encoder) else model.encoder  # type: ignore[return-value]


def device_of(model: nn.Module) -> torch.device:
    """The device of a network's parameters."""
    return next(model.parameters()).device
