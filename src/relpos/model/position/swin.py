"""A bias for every offset (Liu et al. 2021, Swin, Eq. 4), along one dimension."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.model.initial import normal_
from relpos.model.position.base import Scheme, Terms
from relpos.model.shape import Heads, Shape


class Swin(Scheme):
    """T_ij = β_{j−i}: a learned number for each of the 2·max_positions − 1 offsets, layer and head,
    N(0, 0.02), not scaled.

    What `fixed` is without a window: nothing is shared by far offsets, so `max_positions` limits
    the length.

    Differs from the paper: that is for windows of an image and has an offset along each axis; a
    text has one.

    Parameters: L·H·(2n−1)

    Example:
        >>> swin = Swin(Shape.example())
        >>> _ = swin.beta.data.copy_(torch.arange(-15.0, 16.0))  # each offset gets itself
        >>> swin.prepare(3)[0][0].tolist()
        [-2.0, -1.0, 0.0, 1.0, 2.0]
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self.max_length = shape.max_positions
        sizes = (shape.layers, shape.heads, 2 * shape.max_positions - 1)
        self.beta = normal_(nn.Parameter(torch.empty(sizes)), 0.02)

    def prepare(self, n: int) -> tuple[Float[Tensor, "heads 2*{n}-1"], ...]:
        """β (H, 2n−1) of each layer."""
        centre = self.shape.max_positions - 1
        return self.beta[..., centre - n + 1 : centre + n].unbind(0)

    def terms(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        state: tuple[Float[Tensor, "heads offsets"], ...],
    ) -> Terms:
        return Terms(offset=state[layer])

    def count(self, shape: Shape) -> int:
        return shape.layers * shape.heads * (2 * shape.max_positions - 1)
