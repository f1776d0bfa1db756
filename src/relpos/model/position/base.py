"""What a position scheme is: an `nn.Module` that fills the holes of one equation and nothing else.

    s_ij = scale · q_i·k_j + β_{j−i} + a_{i, j−i} + b_{j, i−j} + D_ij           y_i = Σ_j softmax_j(s_ij) (v_j + u_{j−i})

over all j, or over those with |j − i| ≤ reach. A convolution kernel, in this folder just kernel, is
a row of weights by offset. An offset is counted from the token that owns the kernel to the other
one; +1 is the next token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from relpos.errors import RelposError
from relpos.model.initial import uniform_
from relpos.model.shape import Heads, Mask, Shape, Turned, mapped
from relpos.model.tokens import Tokens

Outside = Literal["clamp", "zero"]
HIDDEN = -1e30
"""What β or D adds where a token is not to be seen; finite, so that a part of a row in which all
are hidden has no NaN."""


class Input(NamedTuple):
    """What a layer's attention is given, for schemes that read more than q and k.

    Args:
        x: the layer's input, normed, at the tokens `held`; of padding it says nothing that may
            reach an output.
        held: the tokens that x holds.
        mask: (B, n) true at real tokens; None: all are real.
        project: rows of the width `hidden` → their q, k and v by the layer's own maps, (rows, heads
            · head_dim) each; those that the layer has no map for are missing.
    """

    x: Float[Tensor, "*tokens hidden"]
    held: Tokens
    mask: Mask | None
    project: Callable[[Float[Tensor, "rows hidden"]], dict[str, Tensor]]

    def zero_padding(self, x: Float[Tensor, "batch n width"]) -> Float[Tensor, "batch n width"]:
        """x with zeros at padding."""
        return x if self.mask is None else x.masked_fill(~self.mask[:, :, None], 0.0)


@dataclass(frozen=True)
class Terms:
    """What is added to the scores, and to the values, of one layer. None adds nothing.

    `outside` says what query, key and value do beyond ±k: `clamp` lets the outermost weight go on,
    `zero` ends it. The width 2k+1 of these tensors says k; the offset o stands in column o + k.
    `offset` covers all offsets of a sequence, o in column o + n − 1. Any floating-point type will
    do; an attention kernel adds them in that of the scores, but query and key in their own where it
    is wider.

    With `columns` query and key may have any width: the offset o stands in column columns[o + n −
    1] of both, and several may share one. With `query_table` the queries' kernels are products:
    `query` holds (batch, heads, n, rank), and the kernels are query @ query_table; with `key_table`
    those of the keys. A table of two axes, (rank, width), serves all heads and is narrow; one of
    three may be as wide as the sentence, and an attention kernel may multiply where it reads, so
    that the kernels are never all in memory. `query_bias` is added to the kernels of all queries of
    a head: a part of β with their window. `reach` is how far a token sees to either side; None: it
    sees all.
    """

    offset: Float[Tensor, "heads offsets"] | None = None  # β, 2n−1 offsets
    query: Float[Tensor, "batch heads n query_width"] | None = None  # a, width 2k+1, read at j − i
    key: Float[Tensor, "batch heads n key_width"] | None = None  # b, width 2k+1, read at i − j
    # D, the same for all sequences or one for each
    dense: Float[Tensor, "#batch heads n n"] | None = None
    value: Float[Tensor, "value_width head_dim"] | None = None  # u, width 2k+1, read at j − i
    outside: str = "clamp"
    columns: Int[Tensor, "offsets"] | None = None  # 2n−1 offsets, as β's
    reach: int | None = None
    query_table: Float[Tensor, "*heads query_width _"] | None = None
    key_table: Float[Tensor, "*heads key_width _"] | None = None
    query_bias: Float[Tensor, "heads _"] | None = None  # as wide as the queries' kernels

    def __add__(self, other: Terms) -> Terms:
        """Field by field, factors multiplied. A narrower window is first extended to the wider one,
        as `outside` says. Where one of them has columns, or both have windows that end differently, kernels
        are first extended to all offsets. The shorter reach holds.

        Raises:
            RelposError: both have tables of values, and these end differently.
        """
        left = self.multiplied()
        right = other.multiplied()
        if self.columns is not None or other.columns is not None or len(_ends(self, other)) > 1:
            left = left.by_offset()
            right = right.by_offset()
        # One sum of tables has one way to end. Terms without a window fit either.
        ends = _ends(left, right)
        if len(ends) > 1:
            raise RelposError(
                f"tables of values with outside={ends[0]} and outside={ends[1]} cannot be added"
            )
        outside = ends[0] if ends else left.outside
        return Terms(
            offset=_plus(left.offset, right.offset),
            query=_plus(
                _extended(left.query, right.query, outside),
                _extended(right.query, left.query, outside),
            ),
            key=_plus(
                _extended(left.key, right.key, outside), _extended(right.key, left.key, outside)
            ),
            dense=_plus(left.dense, right.dense),
            value=_plus(
                _extended(left.value, right.value, outside, 0),
                _extended(right.value, left.value, outside, 0),
            ),
            outside=outside,
            # Extended to all offsets, both have the same columns.
            columns=right.columns if left.columns is None else left.columns,
            reach=min(
                (terms.reach for terms in (left, right) if terms.reach is not None), default=None
            ),
        )

    @property
    def windowed(self) -> bool:
        """Whether `outside` says anything here."""
        kernels = (self.query, self.key) if self.columns is None else ()
        return any(window is not None for window in (*kernels, self.value))

    def causal(self, v: Heads) -> Terms:
        """The same with β = −∞ at the offsets above 0, for values like v. Causality is a function
        of the offset alone, so that an attention kernel need not know of it."""
        heads, n = v.shape[1:3]
        # −∞ and not HIDDEN: what comes later may not be seen even where all before it is padding.
        ahead = torch.arange(1 - n, n, device=v.device) > 0
        offset = (
            torch.zeros(heads, 2 * n - 1, device=v.device) if self.offset is None else self.offset
        )
        return replace(self, offset=offset.masked_fill(ahead, -torch.inf))

    def multiplied(self, narrow: bool = False) -> Terms:
        """The same with kernels in place of their factors, or of those factors alone whose table is
        `narrow`; what is added to all kernels of a head is a part of β."""
        changes: dict[str, Any] = {}
        if self.query_bias is not None and self.query is not None:
            offset = extend(self.query_bias, self.query.shape[2], self.outside)
            changes |= {"offset": _plus(self.offset, offset), "query_bias": None}
        for name, x, table in (
            ("query", self.query, self.query_table),
            ("key", self.key, self.key_table),
        ):
            if x is not None and table is not None and (table.dim() == 2 or not narrow):
                changes |= {name: x @ table, f"{name}_table": None}
        return replace(self, **changes) if changes else self

    def by_offset(self) -> Terms:
        """The same with a column for each offset in query and key, multiplied."""
        given = self.multiplied()
        wide = mapped(given._by_offset, given.query, given.key)
        filled = next((x for x in wide if x is not None), None)
        columns = None if filled is None else torch.arange(filled.shape[-1], device=filled.device)
        return replace(given, query=wide[0], key=wide[1], columns=columns)

    def _by_offset(self, kernel: Tensor) -> Tensor:
        # Each token has a kernel, so that axis 2 says how long the sequence is.
        return (
            extend(kernel, kernel.shape[2], self.outside)
            if self.columns is None
            else kernel[..., self.columns]
        )


def _ends(*added: Terms) -> list[str]:
    """How the windows of these terms end."""
    return sorted({terms.outside for terms in added if terms.windowed})


def _plus(x: Tensor | None, y: Tensor | None) -> Tensor | None:
    return y if x is None else x if y is None else x + y


def _extended(x: Tensor | None, y: Tensor | None, outside: str, axis: int = -1) -> Tensor | None:
    """The window x, as wide along `axis` as the window y where that one is wider."""
    if x is None or y is None or x.shape[axis] >= y.shape[axis]:
        return x
    return extend(x.transpose(axis, -1), y.shape[axis] // 2 + 1, outside).transpose(axis, -1)


class Scheme(nn.Module):
    """No position at all: every hole at its default. Schemes override what they fill.

    `layer` counts passes through a layer; with shared layers each pass still has its own position
    terms.
    """

    projections: frozenset[str] = frozenset("qkv")  # which linear maps the attention needs
    # which of the layer's own maps `see` applies: no convolution may stand in their place
    maps: frozenset[str] = frozenset()
    max_length: int | None = None  # None: runs at any length
    # by which of these two methods alone it learns where tokens stand
    asks: Literal["positions", "offsets"] | None = None
    # whether passes of one shape do the same operations in every step: others are not recorded
    same_each_step: bool = True
    splits: bool = False  # whether `split` makes two heads of each, in some layer
    widens: bool = False  # whether `turn` makes queries and keys wider, in some layer
    # whether kernels of queries and keys say something in their sum alone, at tokens that see each
    # other
    paired: bool = False
    # whether what it adds for j ≤ i depends on tokens behind i: causal attention refuses such
    # schemes
    reads_ahead: bool = False

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    @property
    def scale(self) -> float | None:
        """Factor of q·k; None for attention without q·k."""
        return float(self.shape.head_dim) ** -0.5

    def keep_exact(self, name: str, values: Tensor) -> None:
        """Keeps numbers that are not trained: in float64, on the module's device, outside its
        state.

        They are stored as integers, which `model.bfloat16()` leaves as they are: angles lose their
        meaning in eight bits.
        """
        self.register_buffer(
            f"{name}_bits",
            values.to(torch.float64).view(torch.int64),
            persistent=False,
        )

    def exact(self, name: str) -> Tensor:
        """The float64 numbers of `keep_exact`."""
        return self.get_buffer(f"{name}_bits").view(torch.float64)

    def positions(self, n: int, device: torch.device) -> Int[Tensor, "{n}"]:
        """0 … n − 1: where tokens stand. `Randomized` puts others in their place."""
        return torch.arange(n, device=device)

    def offsets(self, n: int, device: torch.device) -> Int[Tensor, "2*{n}-1"]:
        """1 − n … n − 1: how far tokens are apart. `Randomized` puts others in their place."""
        return torch.arange(1 - n, n, device=device)

    def begin(self, query: Tensor | None, key: Tensor | None) -> None:
        """Called once when initial weights have been drawn, with the first layer's maps (heads ·
        head_dim, hidden) of queries and keys, for a start that belongs to both; None where it has
        no such map."""

    def begin_step(self, step: int) -> None:
        """Called by training before the first forward pass of each update; `step` counts from 0.
        What it keeps must be buffers."""

    @property
    def acts_on_scores(self) -> bool:
        """Whether anything is done inside the attention; if not, the scheme also serves layers that
        have none."""
        return type(self).terms is not Scheme.terms or self.turns

    @property
    def turns(self) -> bool:
        """Whether it turns queries and keys, in some layer."""
        return type(self).turn is not Scheme.turn

    @property
    def by_token(self) -> bool:
        """Whether `terms` gives q and k on as they are, if at all, with a table of two axes; they
        may then be (1, H, tokens of all sequences, head_dim). Nothing is turned or split, and
        values have no table."""
        return not self.acts_on_scores

    def __init_subclass__(cls, **keys: Any) -> None:
        super().__init_subclass__(**keys)
        # Whoever fills the holes in another way says so anew.
        if {"terms", "turn", "split"} & vars(cls).keys() and "by_token" not in vars(cls):
            cls.by_token = Scheme.by_token  # type: ignore[method-assign]

    def embed(self, n: int) -> Float[Tensor, "{n} embedding"] | None:
        """(n, embedding) added to the token embeddings."""
        return None

    def prepare(self, n: int) -> Any:
        """What all layers need for sequences of length n; computed once a forward pass and handed
        on as `state`."""
        return None

    def see(self, layer: int, given: Input, state: Any) -> Any:
        """The `state` of this pass for `turn` and `terms`, where it depends on the layer's input or
        on padding."""
        return state

    def turn(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        v: Heads,
        state: Any,
    ) -> tuple[Turned, Turned, Heads]:
        """Queries, keys and values before scaling, turned. Queries and keys may come out wider,
        both alike."""
        return q, k, v

    def split(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v (B, H, n, …) as turned, or two heads of each, side by side, for which `terms` are
        then meant."""
        return q, k, v

    def terms(self, layer: int, q: Any, k: Any, state: Any) -> Terms:
        """q, k (B, H, n, head_dim) as projected: neither turned nor scaled; None where
        `projections` leaves them out."""
        return Terms()

    def count(self, shape: Shape) -> int:
        """Number of parameters, as a formula."""
        return 0

    def check_length(self, n: int) -> None:
        """Raises RelposError where the scheme cannot serve n tokens."""
        if self.max_length is not None and n > self.max_length:
            name = type(self).__name__
            raise RelposError(
                f"{name} has {self.max_length} positions (size.max_positions); a "
                f"sequence of {n} tokens is too long"
            )


Position = Callable[[Shape], Scheme]


def extend(
    kernel: Float[Tensor, "*tables width"],
    n: int,
    outside: str,
) -> Float[Tensor, "*tables 2*{n}-1"]:
    """(..., 2k+1) over offsets −k..k → (..., 2n−1) over offsets 1−n..n−1, clamped or zero beyond
    the window."""
    k = kernel.shape[-1] // 2
    offsets = torch.arange(1 - n, n, device=kernel.device)
    wide = kernel[..., offsets.clamp(-k, k) + k]
    return wide if outside == "clamp" else wide * (offsets.abs() <= k).to(kernel.dtype)


def kernel_table(shape: Shape, k: int) -> nn.Parameter:
    """(layers, head_dim, 2k+1), shared by the heads of a layer, uniform in ±1/√(2k+1).

    That is the authors' init: a Kaiming-uniform call that takes the width for the fan-in, the table
    being stored this way round.
    """
    width = 2 * k + 1
    return uniform_(
        nn.Parameter(torch.empty(shape.layers, shape.head_dim, width)),
        -(width**-0.5),
        width**-0.5,
    )
