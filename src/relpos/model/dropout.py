"""Dropout whose masks are a pure function of a seed.

A mask is drawn from the integer counter hash of (seed, place in the model, pass through the layer, element): the same bits on every
device and in every kernel, whatever else has drawn random numbers. It is also about ten times cheaper on a CPU than `bernoulli_`: one
64-bit hash decides four elements, 16 bits each, so a rate is a multiple of 1/65536 (0.1 becomes 0.100006; the rescaling is exact for it).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relpos.counter import counter_hash, fold

_LEVELS = 1 << 16


def threshold(p: float) -> int:
    """How many of the 65,536 values of 16 bits drop an element."""
    return min(round(p * _LEVELS), _LEVELS - 1)


def rescale(p: float) -> float:
    """What a kept element is multiplied by."""
    return _LEVELS / (_LEVELS - threshold(p))


def keep_mask(shape: torch.Size | tuple[int, ...], p: float, key: int, device: torch.device) -> Tensor:
    """Bool tensor of this shape, true where the element is kept: element e is lane e mod 4 of hash(key, e div 4)."""
    size = torch.Size(shape).numel()
    words = counter_hash(key, torch.arange((size + 3) // 4, device=device))
    lanes = words.view(torch.int16)[:size]
    return (lanes >= threshold(p) - _LEVELS // 2).view(shape)


class _Drop(torch.autograd.Function):
    """x · mask · rescale, keeping one byte an element for the backward pass."""

    @staticmethod
    def forward(ctx, x: Tensor, p: float, key: int) -> Tensor:  # type: ignore[no-untyped-def, override]
        keep = keep_mask(x.shape, p, key, x.device)
        ctx.save_for_backward(keep)
        ctx.rescale = rescale(p)
        return (x * keep).mul_(ctx.rescale)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[no-untyped-def, override]
        (keep,) = ctx.saved_tensors
        return (grad * keep).mul_(ctx.rescale), None, None


def drop(x: Tensor, p: float, key: int) -> Tensor:
    """Inverted dropout of x with the mask of this key."""
    return _Drop.apply(x, p, key) if p > 0 else x


class Dropout(nn.Module):
    """A place in the model where dropout happens. `seed_dropout` gives it its seed and its number.

    Without a seed each use draws a fresh key from torch's generator, as `nn.Dropout` would.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.seed: int | None = None
        self.place = 0

    def draw(self, number: int = 0) -> tuple[float, int]:
        """(rate, key of the mask) for the pass `number` through this place; rate 0 outside training."""
        if not self.training or self.p == 0:
            return 0.0, 0
        if self.seed is None:
            return self.p, int(torch.randint(1 << 62, ()))
        return self.p, fold(self.seed, self.place, number)

    def forward(self, x: Tensor, number: int = 0) -> Tensor:
        return drop(x, *self.draw(number))

    def extra_repr(self) -> str:
        return f"p={self.p}"


def seed_dropout(module: nn.Module, seed: int | None) -> None:
    """Makes every later forward of `module` a pure function of (weights, batch, seed); None gives the masks back to torch's generator."""
    places = [part for part in module.modules() if isinstance(part, Dropout)]
    for number, place in enumerate(places):
        place.seed, place.place = seed, number
