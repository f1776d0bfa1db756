"""Sinusoidal positions (Vaswani et al. 2017)."""

from __future__ import annotations

from math import sqrt
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from relpos.model.position.base import Scheme
from relpos.model.shape import Shape
from relpos.ranges import Positive, checked


class Sinusoidal(Scheme):
    """P[p, 2m] = c sin(p / 10000^(2m/E)), P[p, 2m+1] = c cos(p / 10000^(2m/E)), added to the
    embeddings of width E. No parameters.

    c is 1/√E, or √2 · `rms` where that is given: `rms` is the root mean square of the waves.

    Parameters: 0

    Differs from the paper: there c is 1 and the words are multiplied by √E. Dividing the waves by
    √E instead is the same to the layer norm that follows; doing neither buries words of 0.02 under
    waves of 0.71. `rms=0.7071` gives c = 1.

    Raises:
        RelposError: `rms` is not a number above 0.

    Example:
        >>> Sinusoidal(Shape.example(), rms=0.5**0.5).embed(2)[:, :2]  # c = 1: sin 0, cos 0; sin 1, cos 1
        tensor([[0.0000, 1.0000],
                [0.8415, 0.5403]], dtype=torch.float64)
    """

    asks: Literal["positions"] | None = "positions"

    @checked
    def __init__(self, shape: Shape, rms: Positive | None = None) -> None:
        super().__init__(shape)
        self.amplitude = shape.embedding**-0.5 if rms is None else sqrt(2) * rms
        channel = torch.arange(shape.embedding, dtype=torch.float64)
        # (E,) the angle from one position to the next
        self.keep_exact("wave", 10000.0 ** (-2 * (channel // 2) / shape.embedding))
        # A phase in place of two cases: one sine serves even and odd channels.
        # (E,) a cosine is a quarter of a turn ahead
        self.keep_exact("phase", (channel % 2) * (torch.pi / 2))

    def embed(self, n: int) -> Float[Tensor, "{n} embedding"]:
        wave = self.exact("wave")
        position = self.positions(n, wave.device)
        return self.amplitude * torch.sin(position[:, None] * wave + self.exact("phase"))
