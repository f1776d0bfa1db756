"""Heads that see one side each (Hallee & Gleghorn 2026, Dual Triangle Attention)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from relpos.model.position.base import HIDDEN, Scheme, Terms
from relpos.model.shape import Heads, Shape


class DualTriangle(Scheme):
    """T_ij = −∞ if j > i in the first ⌈H/2⌉ heads and if j < i in the others: half of the heads see the left side, half the right
    one, and every head sees the token itself. Nothing else tells the order, and there are no parameters.

    The paper has two softmaxes in each head, one over the left side for the first half of its channels and one over the right side
    for the second, each scaled by 1/√(head_dim/2). That is this scheme with `size.heads` doubled: which heads see which side is
    a matter of their numbering. With rotary positions (`merge`) it is not, since there the halves of a head have other angles.

    Parameters: 0

    Differs from the paper: a head sees one side, as in the authors' code, whose mask gives both halves of a head the same one.

    Example:
        >>> (DualTriangle(Shape.example()).prepare(2) == HIDDEN).tolist()  # head by head, offsets −1 … 1
        [[False, False, True], [True, False, False]]
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.keep_exact("blind", blind_sides(shape.heads))

    def prepare(self, n: int) -> Float[Tensor, "heads 2*{n}-1"]:
        """β (H, 2n−1)."""
        return one_sided(self.exact("blind"), n)

    def terms(self, layer: int, q: Heads, k: Heads, state: Float[Tensor, "heads offsets"]) -> Terms:
        return Terms(offset=state.to(q.dtype))


def blind_sides(heads: int) -> Float[Tensor, "{heads}"]:
    """The sign of the offsets that each head does not see: +1 in the first ⌈heads/2⌉, −1 in the others."""
    return torch.tensor([1.0 if 2 * head < heads else -1.0 for head in range(heads)], dtype=torch.float64)


def one_sided(blind: Float[Tensor, "heads"], n: int) -> Float[Tensor, "heads 2*{n}-1"]:
    """HIDDEN at offsets of the blind side, elsewhere 0."""
    signed = blind[:, None] * torch.arange(1 - n, n, device=blind.device)
    return torch.zeros_like(signed).masked_fill_(signed > 0, HIDDEN)
