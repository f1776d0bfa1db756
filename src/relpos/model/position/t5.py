"""The relative bias of T5 (Raffel et al. 2020, section 2.1): offsets share a weight in buckets that
widen with the distance."""

from __future__ import annotations

import bisect

import torch
from jaxtyping import Float, Int
from torch import Tensor

from relpos.errors import RelposError
from relpos.model.initial import glorot
from relpos.model.position.base import Scheme, Terms
from relpos.model.shape import Heads, Shape
from relpos.ranges import Count, checked


class T5(Scheme):
    """T_ij = B[h, bucket(j − i)], one table (H, buckets) for all layers, added after the scaling.

    Half of the buckets serve each direction, m = buckets / 2; those of the tokens to the right come
    second. In each half the first e = ⌊m / 2⌋ hold one distance each; distance a ≥ e falls into
    bucket e + min(m − e − 1, ⌊ln(a / e) / ln(max_distance / e) · (m − e)⌋). By default these begin
    at 8, 12, 16, 23, 32, 46, 64 and 91. Bucket m, distance 0 to the right, is never used and a
    parameter all the same. Runs at any length.

    Initial values are Glorot uniform, ±√(6 / (buckets + H)), as in the authors' code (the port in
    Hugging Face's Transformers draws from N(0, 1/hidden)).

    Parameters: buckets·H

    Differs from the authors' code: T5 has no 1/√head_dim on q·k, its initial weights stand for
    that. Here the content is scaled as everywhere, the bias is not.

    Raises:
        RelposError: `buckets` is odd or less than 4, or `max_distance` does not reach beyond the
            buckets of one distance.

    Example:
        >>> bucket_edges(buckets=32, max_distance=128)
        [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
        >>> bucket(torch.tensor([-100, -1, 0, 1, 9, 100]), torch.tensor(bucket_edges())).tolist()
        [15, 1, 0, 17, 24, 31]
    """

    edges: Int[Tensor, "edges"]  # m − 1 of them: the least distance of each bucket but the first

    asks = "offsets"
    by_token = True

    @checked
    def __init__(self, shape: Shape, buckets: Count = 32, max_distance: Count = 128) -> None:
        super().__init__(shape)
        self.buckets = buckets
        self.register_buffer(
            "edges",
            torch.tensor(bucket_edges(buckets, max_distance)),
            persistent=False,
        )
        self.table = glorot(shape.heads, buckets, fans=buckets + shape.heads)

    def prepare(self, n: int) -> Float[Tensor, "heads 2*{n}-1"]:
        """β (H, 2n−1)."""
        return self.table[:, bucket(self.offsets(n, self.edges.device), self.edges)]

    def terms(self, layer: int, q: Heads, k: Heads, state: Float[Tensor, "heads offsets"]) -> Terms:
        return Terms(offset=state)

    def count(self, shape: Shape) -> int:
        return self.buckets * shape.heads


def bucket(offset: Int[Tensor, "*shape"], edges: Int[Tensor, "edges"]) -> Int[Tensor, "*shape"]:
    """Offsets of any shape → their buckets; `edges` as `bucket_edges` gives them."""
    # `right=True`: a distance that equals an edge begins the next bucket.
    return torch.bucketize(offset.abs(), edges, right=True) + (len(edges) + 1) * (offset > 0)


def bucket_edges(buckets: int = 32, max_distance: int = 128) -> list[int]:
    """The least distance of each bucket of one direction but the first, which begins at 0.

    In whole numbers, since powers of two lie exactly on an edge and rounding would decide about
    them: ln(a / e) / ln(M / e) · w ≥ t holds just where a^w e^t ≥ M^t e^w.
    """
    if buckets < 4 or buckets % 2:
        raise RelposError(f"buckets must be an even number of 4 or more, not {buckets!r}")
    exact = buckets // 4
    if max_distance <= exact:
        raise RelposError(
            f"max_distance must be a whole number of more than {exact}, a quarter of the buckets, "
            f"not {max_distance!r}"
        )
    wide = buckets // 2 - exact

    def reaches(a: int, step: int) -> bool:
        return bool(a**wide * exact**step >= max_distance**step * exact**wide)

    every = range(max_distance + 1)
    return [
        *range(1, exact + 1),
        *(bisect.bisect_left(every, True, key=lambda a: reaches(a, t)) for t in range(1, wide)),
    ]
