"""Depthwise and depthwise-separable convolutions, the parts of which others are made."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relpos.model.conv.window import depthwise


class DepthwiseConv(nn.Module):
    """(B, n, C) → (B, n, C): y_{i,c} = Σ_r w_{c,r} x_{i+r,c} + w_c. Weights and bias uniform in ±1/√width, as in `nn.Conv1d`."""

    def __init__(self, channels: int, width: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, width).uniform_(-(width**-0.5), width**-0.5))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-(width**-0.5), width**-0.5)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return depthwise(x, self.weight, self.bias)


class SeparableConv(nn.Module):
    """(B, n, channels) → (B, n, out): a depthwise convolution, an activation if asked for, a linear map; biases in both."""

    def __init__(self, channels: int, out: int, width: int, activation: nn.Module | None = None) -> None:
        super().__init__()
        self.depthwise = DepthwiseConv(channels, width)
        self.activation = activation or nn.Identity()
        self.pointwise = nn.Linear(channels, out)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.pointwise(self.activation(self.depthwise(x)))
        return y

    @staticmethod
    def count(channels: int, out: int, width: int) -> int:
        return channels * (width + 1) + out * (channels + 1)
