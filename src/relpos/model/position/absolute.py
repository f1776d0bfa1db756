"""Absolute positions of BERT (Devlin et al. 2019)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.model.initial import normal_
from relpos.model.position.base import Scheme
from relpos.model.shape import Shape
from relpos.ranges import Positive, checked


class Absolute(Scheme):
    """x_i = word_i + type_i + P[i], a learned row for each of the `max_positions` positions, N(0,
    std²); words have 0.02.

    Parameters: n·E

    Differs from the original: not truncated normal, as in Chang et al.'s code. The table has the
    width of the embedding, so that a factorised model pays max_positions × embedding parameters.

    Example:
        >>> absolute = Absolute(Shape.example())
        >>> absolute.embed(3).shape
        torch.Size([3, 6])
        >>> absolute.max_length
        16
    """

    asks = "positions"

    @checked
    def __init__(self, shape: Shape, std: Positive = 0.02) -> None:
        super().__init__(shape)
        self.max_length = shape.max_positions
        self.table = normal_(nn.Parameter(torch.empty(shape.max_positions, shape.embedding)), std)

    def embed(self, n: int) -> Float[Tensor, "{n} embedding"]:
        return self.table[self.positions(n, self.table.device)]

    def count(self, shape: Shape) -> int:
        return shape.max_positions * shape.embedding
