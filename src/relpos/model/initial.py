"""Initial values of parameters: drawn from the counter hash of (seed, name, element), the same bits
on every processor.

A scheme or convolution says by `normal_` and `uniform_` from which distribution its parameters are
drawn. Their first values follow from torch's generator, as in any module; once the whole network is
built, `redraw` draws them again from a seed and their names. So two networks that both have a
parameter give it the same initial values, whatever else they have.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from relpos.counter import fold, normal, uniform

_BLOCK = 1 << 14  # elements at a time, so that intermediate values stay in the cache

Filled = TypeVar("Filled", bound=Tensor)


@dataclass(frozen=True)
class Distribution:
    """shift + factor · x, with x from N(0, 1) or uniform in [0, 1)."""

    shift: float
    factor: float
    gaussian: bool

    def fill(self, parameter: Tensor, key: int) -> None:
        """Writes the values of this key into the parameter; not into one on the meta device, which
        has no memory."""
        if parameter.is_meta:
            return
        draw = normal if self.gaussian else uniform
        with torch.no_grad():
            # On the processor by name: a default device, as a context, would pass each operation
            # through Python.
            values = torch.empty(parameter.numel(), dtype=torch.float32, device="cpu")
            for start in range(0, len(values), _BLOCK):
                block = values[start : start + _BLOCK]
                # Two operations, each rounded the same on every processor; one that multiplies and
                # adds at once might not be.
                block.copy_(
                    draw(key, torch.arange(start, start + len(block), device="cpu"))
                    .mul_(self.factor)
                    .add_(self.shift)
                )
            parameter.copy_(values.view(parameter.shape))


def normal_(parameter: Filled, std: float, mean: float = 0.0) -> Filled:
    """Draws the parameter from N(mean, std²), and returns it."""
    return _drawn(parameter, Distribution(mean, std, gaussian=True))


def uniform_(parameter: Filled, low: float, high: float) -> Filled:
    """Draws the parameter uniformly from low to high, and returns it."""
    return _drawn(parameter, Distribution(low, high - low, gaussian=False))


def glorot(*shape: int, fans: int) -> nn.Parameter:
    """Uniform in ±√(6 / (fan in + fan out)); `fans` is their sum."""
    bound = math.sqrt(6 / fans)
    return uniform_(nn.Parameter(torch.empty(shape)), -bound, bound)


def describe(parameter: Filled, distribution: Distribution) -> Filled:
    """Notes the distribution from which `redraw` will draw the parameter, and returns the
    parameter."""
    parameter.initial = distribution  # type: ignore[attr-defined]
    return parameter


def _drawn(parameter: Filled, distribution: Distribution) -> Filled:
    distribution.fill(parameter, int(torch.randint(1 << 62, (), device="cpu")))
    return describe(parameter, distribution)


def redraw(parameters: Iterable[tuple[str, nn.Parameter]], seed: int) -> None:
    """Draws every parameter that has a distribution again, from the seed and its name. The others
    stay as they are."""
    for name, parameter in parameters:
        distribution = getattr(parameter, "initial", None)
        if distribution is not None:
            distribution.fill(parameter, fold(seed, zlib.crc32(name.encode())))
