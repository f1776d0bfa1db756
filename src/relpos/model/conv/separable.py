"""Depthwise and depthwise-separable convolutions, the parts of which others are made."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from relpos.model.conv.window import Channels, depthwise, depthwise_each
from relpos.model.initial import uniform_


class DepthwiseConv(nn.Module):
    """y_{i,c} = Σ_r w_{c,r} x_{i+r,c} + w_c. Weights and bias uniform in ±1/√width, as in
    `nn.Conv1d`."""

    def __init__(self, channels: int, width: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = uniform_(
            nn.Parameter(torch.empty(channels, width)),
            -(width**-0.5),
            width**-0.5,
        )
        self.bias = (
            uniform_(nn.Parameter(torch.empty(channels)), -(width**-0.5), width**-0.5)
            if bias
            else None
        )

    def forward(self, x: Channels) -> Channels:
        return depthwise(x, self.weight, self.bias)


class SeparableConv(nn.Module):
    """A depthwise convolution, an activation if asked for, a linear map. `bias` is that of the
    first."""

    def __init__(
        self,
        channels: int,
        out: int,
        width: int,
        activation: nn.Module | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.depthwise = DepthwiseConv(channels, width, bias)
        self.activation = activation or nn.Identity()
        self.pointwise = nn.Linear(channels, out)

    def forward(self, x: Channels) -> Float[Tensor, "batch n out"]:
        return self.finish(self.depthwise(x))

    def finish(self, x: Channels) -> Float[Tensor, "batch n out"]:
        """What follows the depthwise convolution."""
        y: Tensor = self.pointwise(self.activation(x))
        return y

    @staticmethod
    def each(
        convolutions: Sequence[SeparableConv],
        x: Channels,
    ) -> list[Float[Tensor, "batch n _"]]:
        """All of them on one x."""
        middle = depthwise_each(
            x, *((part.depthwise.weight, part.depthwise.bias) for part in convolutions)
        )
        return [part.finish(y) for part, y in zip(convolutions, middle, strict=True)]

    @staticmethod
    def count(channels: int, out: int, width: int, bias: bool = True) -> int:
        return channels * (width + bias) + out * (channels + 1)
