"""Disentangled attention (He et al. 2021, DeBERTa), with the log buckets and shared maps of
versions 2 and 3."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import sqrt
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from relpos.errors import RelposError
from relpos.model.initial import normal_
from relpos.model.position.base import Input, Scheme, Terms
from relpos.model.shape import Heads, Shape
from relpos.ranges import Count, checked

NORM_EPS = 1e-7  # of the authors' layer norm on the table


class BucketRows(NamedTuple):
    """Rows of the table for the buckets −m … m, normed, and where each offset stands among them;
    None: in order."""

    rows: Float[Tensor, "width hidden"]
    columns: Int[Tensor, "offsets"] | None


class TokenKernels(NamedTuple):
    """What queries and keys are multiplied with, and where each offset stands."""

    query: Float[Tensor, "heads head_dim width"]
    key: Float[Tensor, "heads head_dim width"]
    columns: Int[Tensor, "offsets"] | None


class Deberta(Scheme):
    """s_ij = (q_i·k_j + q_i·(W_K p)_δ + k_j·(W_Q p)_δ) / √(3 head_dim), δ = bucket(i − j), with p =
    LN(P).

    P (2·buckets × d), N(0, 0.02), and the norm serve all layers. With `share` the layer's own maps
    to q and k, biases included, are W_Q and W_K; without, each layer has two more, N(0, 0.02) and
    biases of 0. A mid of buckets / 2 distances on each side have a bucket each. A distance a beyond
    has mid + ⌈ln(a / mid) / ln((max_distance − 1) / mid) · (mid − 1)⌉, at most `buckets` to the
    right of a token and `buckets` − 1 to its left, where the table ends. Runs at any length.

    GPT-BERT's positions are `buckets=32`; its table has no row for the outermost bucket.

    Parameters: 2·buckets·d + 2·d + (0 if share else 2·L·(d² + d))

    Differs from the paper: as in both released codes the query of the third term is that of
    bucket(i − j), not of bucket(j − i).

    Differs from the authors' code: P is not dropped out. The convolution of version 2 beside the
    first layer is no part of it.

    Raises:
        RelposError: `buckets` is odd or less than 4, or `max_distance` does not reach beyond the
            buckets of one distance.

    Example:
        >>> Deberta(Shape.example(), buckets=4, max_distance=8).prepare(6).columns.tolist()  # of the offsets −5 … 5
        [0, 0, 0, 1, 2, 3, 4, 5, 6, 6, 6]
    """

    edges: Int[Tensor, "edges"]  # the least distance of each bucket but the first

    @checked
    def __init__(
        self,
        shape: Shape,
        buckets: Count = 256,
        max_distance: Count = 512,
        share: bool = True,
    ) -> None:
        super().__init__(shape)
        self.buckets, self.share = buckets, share
        self.least = bucket_edges(buckets, max_distance)
        self.register_buffer("edges", torch.tensor(self.least), persistent=False)
        self.table = normal_(nn.Parameter(torch.empty(2 * buckets, shape.hidden)), 0.02)
        self.norm = nn.LayerNorm(shape.hidden, eps=NORM_EPS)
        if share:
            self.maps = frozenset("qk")
        else:
            own = [
                nn.Linear(shape.hidden, 2 * shape.heads * shape.head_dim)
                for _ in range(shape.layers)
            ]
            for part in own:
                normal_(part.weight, 0.02)
                nn.init.zeros_(part.bias)
            self.own = nn.ModuleList(own)

    @property
    def scale(self) -> float:
        return 1 / sqrt(3 * self.shape.head_dim)

    def prepare(self, n: int) -> BucketRows:
        """The rows of the buckets that n tokens have."""
        most = bisect_right(self.least, n - 1)
        every = torch.arange(self.buckets - most, self.buckets + most + 1, device=self.edges.device)
        # A few rows serve all layers, so that exactness costs nothing.
        with torch.autocast(self.table.device.type, enabled=False):
            # The table ends before the outermost bucket of one side, which has the last row.
            rows = self.norm(self.table[every.clamp(max=2 * self.buckets - 1)])
        # So near, every distance has a bucket of its own: columns would say what the order says.
        if n - 1 <= self.buckets // 2:
            return BucketRows(rows, None)
        offset = torch.arange(1 - n, n, device=self.edges.device)
        return BucketRows(
            rows,
            most + offset.sign() * torch.bucketize(offset.abs(), self.edges, right=True),
        )

    def see(self, layer: int, given: Input, state: BucketRows) -> TokenKernels:
        """The rows as the layer's queries and keys."""
        if self.share:
            projected = given.project(state.rows)
            q, k = projected["q"], projected["k"]
        else:
            q, k = self.own[layer](state.rows).chunk(2, 1)
        q, k = (
            x.unflatten(1, (-1, self.shape.head_dim)).permute(1, 2, 0) * self.scale for x in (q, k)
        )
        # A kernel is read at the offset from its owner: a key's at i − j, which is that of the
        # bucket; a query's at j − i.
        return TokenKernels(k.flip(2), q, state.columns)

    def terms(self, layer: int, q: Heads, k: Heads, state: TokenKernels) -> Terms:
        return Terms(
            query=q,
            key=k,
            query_table=state.query,
            key_table=state.key,
            outside="zero",
            columns=state.columns,
        )

    def count(self, shape: Shape) -> int:
        own = (
            0
            if self.share
            else 2 * shape.layers * (shape.hidden + 1) * shape.heads * shape.head_dim
        )
        return 2 * (self.buckets + 1) * shape.hidden + own


def bucket_edges(buckets: int, max_distance: int) -> list[int]:
    """The least distance of each bucket of one side from 1 to `buckets`, in whole numbers:
    ln(a / m) / ln((M − 1) / m) · (m − 1) > t holds just where a^(m−1) m^t > (M − 1)^t m^(m−1).
    """
    if buckets < 4 or buckets % 2:
        raise RelposError(f"buckets must be an even number of 4 or more, not {buckets!r}")
    middle = buckets // 2
    if max_distance <= middle + 1:
        raise RelposError(
            f"max_distance must be a whole number of more than {middle + 1}, half of the buckets "
            f"and one, not {max_distance!r}"
        )

    def beyond(a: int, step: int) -> bool:
        return bool(
            a ** (middle - 1) * middle**step > (max_distance - 1) ** step * middle ** (middle - 1)
        )

    every = range(max_distance + 1)
    return [
        *range(1, middle + 1),
        *(bisect_left(every, True, key=lambda a: beyond(a, t)) for t in range(middle)),
    ]
