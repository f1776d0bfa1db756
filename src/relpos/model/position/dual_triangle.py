"""Heads that see one side each (Hallee & Gleghorn 2026, Dual Triangle Attention)."""

from __future__ import annotations

from math import sqrt
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from relpos.errors import RelposError
from relpos.model.position.base import HIDDEN, Scheme, Terms
from relpos.model.shape import Heads, Shape
from relpos.ranges import checked


class DualTriangle(Scheme):
    """T_ij = −∞ if j > i in the first ⌈H/2⌉ heads and if j < i in the others: half of the heads see
    the left side, half the right one, and every head sees the token itself. Nothing else tells the
    order, and there are no parameters.

    `heads=split` is the form of the paper: the first half of the channels of each head's q, k and v
    sees the left side, the second half the right one, each with a softmax of its own and q·k
    divided by √(head_dim/2). Alone that is attention with twice as many heads. Merged with rotary
    positions it is not, since the halves of a head have other angles.

    Parameters: 0

    Differs from the paper: with `heads=halves` both halves of a head see one side, as the mask of
    the authors' code has it.

    Raises:
        RelposError: head_dim is odd and heads are split; later, queries that another scheme has
            made wider unsaid.

    Example:
        >>> (DualTriangle(Shape.example()).prepare(2) == HIDDEN).tolist()  # head by head, offsets −1 … 1
        [[False, False, True], [True, False, False]]
        >>> split, q = DualTriangle(Shape.example(), heads="split"), torch.zeros(1, 2, 3, 4)
        >>> split.split(0, q, q, q)[0].shape, split.prepare(3).shape
        (torch.Size([1, 4, 3, 2]), torch.Size([4, 5]))
    """

    @checked
    def __init__(self, shape: Shape, heads: Literal["halves", "split"] = "halves") -> None:
        super().__init__(shape)
        self.splits = heads == "split"
        if self.splits and shape.head_dim % 2:
            raise RelposError(
                f"DualTriangle splits heads: head_dim = hidden / heads must be even, "
                f"not {shape.head_dim}"
            )
        self.keep_exact(
            "blind",
            blind_sides(2).repeat(shape.heads) if self.splits else blind_sides(shape.heads),
        )

    def prepare(self, n: int) -> Float[Tensor, "of_heads 2*{n}-1"]:
        """β (H, 2n−1), or (2H, 2n−1) of halves of heads."""
        return one_sided(self.exact("blind"), n)

    def split(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if not self.splits:
            return q, k, v
        if q.shape[-1] != v.shape[-1]:
            raise RelposError(
                "DualTriangle splits heads: another scheme, which does not say "
                "`widens`, has made queries wider"
            )
        # The attention divides by √head_dim, and half a head needs √(head_dim / 2).
        return sqrt(2) * _halves(q), _halves(k), _halves(v)

    def terms(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        state: Float[Tensor, "of_heads offsets"],
    ) -> Terms:
        return Terms(offset=state.to(q.dtype))


def _halves(x: Heads) -> Float[Tensor, "batch halves n half_dim"]:
    """(B, H, n, head_dim) → (B, 2H, n, head_dim/2)"""
    return x.unflatten(3, (2, -1)).transpose(2, 3).flatten(1, 2)


def blind_sides(heads: int) -> Float[Tensor, "{heads}"]:
    """The sign of the offsets that each head does not see: +1 in the first ⌈heads/2⌉, −1 in the
    others."""
    first = -(-heads // 2)
    return torch.tensor([1.0] * first + [-1.0] * (heads - first), dtype=torch.float64)


def one_sided(blind: Float[Tensor, "heads"], n: int) -> Float[Tensor, "heads 2*{n}-1"]:
    """HIDDEN at offsets of the blind side, elsewhere 0."""
    signed = blind[:, None] * torch.arange(1 - n, n, device=blind.device)
    return torch.zeros_like(signed).masked_fill_(signed > 0, HIDDEN)
