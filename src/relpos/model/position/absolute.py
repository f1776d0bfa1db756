"""Absolute positions of BERT (Devlin et al. 2019)."""

from __future__ import annotations

from math import pi, sqrt
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.errors import RelposError
from relpos.model.initial import normal_
from relpos.model.position.base import Scheme
from relpos.model.shape import Shape
from relpos.ranges import Positive, checked


class Absolute(Scheme):
    """x_i = word_i + type_i + P[i], a learned row for each of the `max_positions` positions, N(0,
    std²); words have 0.02.

    With `start=neighbours` training begins with heads that look at their neighbours. P has waves of
    the root mean square `std` (0.1 was good where words have 0.02), each head all lengths from 2 to
    2·n tokens in its own channels. In the first layer a·I is added to W_q and a·R to W_k, with a =
    4 / d_h^¼; R turns the waves of a head by its offset: −1, +1, −2, +2, … in the order of the
    heads. So q_i·k_j is greatest at j = i + offset as far as positions go. After Trockman & Kolter
    2023, in whose start W_q and W_k are alike.

    Parameters: n·E

    Differs from the original: not truncated normal, as in Chang et al.'s code. The table has the
    width of the embedding, so that a factorised model pays max_positions × embedding parameters.

    Raises:
        RelposError: with `start=neighbours`, rows that are not as wide as the first layer, or heads
            of an odd width; later, a convolution that makes the queries or keys itself.

    Example:
        >>> absolute = Absolute(Shape.example())
        >>> absolute.embed(3).shape
        torch.Size([3, 6])
        >>> absolute.max_length
        16
    """

    asks = "positions"

    @checked
    def __init__(
        self,
        shape: Shape,
        std: Positive = 0.02,
        start: Literal["normal", "neighbours"] = "normal",
    ) -> None:
        super().__init__(shape)
        if start == "neighbours" and (shape.embedding != shape.hidden or shape.head_dim % 2):
            raise RelposError(
                f"position.start=neighbours: needs size.embedding = size.hidden and heads of "
                f"an even width, not {shape.embedding}, {shape.hidden} and {shape.head_dim}"
            )
        self.max_length, self.std, self.start = shape.max_positions, std, start
        self.table = normal_(nn.Parameter(torch.empty(shape.max_positions, shape.embedding)), std)

    def begin(self, query: Tensor | None, key: Tensor | None) -> None:
        if self.start == "normal":
            return
        if query is None or key is None:
            raise RelposError(
                "position.start=neighbours: the first layer has no maps of queries and keys; take "
                "another conv, or position.start=normal"
            )
        neighbours(self.table, query, key, self.shape.head_dim, self.std)

    def embed(self, n: int) -> Float[Tensor, "{n} embedding"]:
        return self.table[self.positions(n, self.table.device)]

    def count(self, shape: Shape) -> int:
        return shape.max_positions * shape.embedding


@torch.no_grad()
def neighbours(table: Tensor, query: Tensor, key: Tensor, head_dim: int, std: float = 0.1) -> None:
    """Starts a table of positions (n, d), and the weights (heads · head_dim, d) of a first layer's
    queries and keys, as `Absolute` does with `start=neighbours`; of any network whose layers read
    the table's rows, such as transformers' BERT."""
    (positions, width), strength = table.shape, 4 * head_dim**-0.25
    # On the processor by name, as other initial values.
    with torch.device("cpu"):
        channel = torch.arange(width)
        position = torch.arange(positions)[:, None]
        head, odd = channel // head_dim, channel % 2
        place = channel % head_dim // 2 * (width // head_dim) + head
        # (width,) the angle from one position to the next
        wave = pi * positions ** -((place + 0.5) / (width // 2))
        turn = ((head // 2 + 1) * (2 * (head % 2) - 1) * wave)[:, None]
        same = torch.eye(width)
        quarter = torch.eye(width)[channel ^ 1] * (2 * odd - 1)[:, None]
        turned = torch.cos(turn) * same + torch.sin(turn) * quarter
        table.copy_(sqrt(2) * std * torch.sin(position * wave + odd * (pi / 2)))
        query += strength * same[: len(query)].to(query)
        key += strength * turned[: len(key)].to(key)
