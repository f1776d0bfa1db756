"""Sinusoidal positions (Vaswani et al. 2017)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from relpos.model.position.base import Scheme
from relpos.model.shape import Shape


class Sinusoidal(Scheme):
    """P[p, 2m] = sin(p / 10000^(2m/E)), P[p, 2m+1] = cos(p / 10000^(2m/E)), added to the embeddings of width E. No parameters.

    Parameters: 0

    Differs from the paper: the embeddings are not multiplied by √E, because a layer norm follows.

    Example:
        >>> Sinusoidal(Shape.example()).embed(2)[:, :2]  # sin 0, cos 0; sin 1, cos 1
        tensor([[0.0000, 1.0000],
                [0.8415, 0.5403]], dtype=torch.float64)
    """

    wave: Float[Tensor, "embedding"]  # the angular step of each channel; for a cosine the phase is π/2 ahead
    phase: Float[Tensor, "embedding"]

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        channel = torch.arange(shape.embedding, dtype=torch.float64)
        self.register_buffer("wave", 10000.0 ** (-2 * (channel // 2) / shape.embedding), persistent=False)
        self.register_buffer("phase", (channel % 2) * (torch.pi / 2), persistent=False)

    def embed(self, n: int) -> Float[Tensor, "{n} embedding"]:
        position = torch.arange(n, device=self.wave.device, dtype=self.wave.dtype)
        return torch.sin(position[:, None] * self.wave + self.phase)
