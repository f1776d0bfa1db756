"""Dropout whose masks are a pure function of a seed.

A mask is drawn from an integer hash of (seed, place in the model, pass through the layer, element): the same bits on every
device and in every kernel, whatever else has drawn random numbers. On a CPU it costs a tenth of `bernoulli_`: one 64-bit word
decides four elements. Each has 15 bits, so a rate is a multiple of 1/32768 (0.1 becomes 0.100006; the rescaling is exact for it).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int16
from torch import Tensor, nn

from relpos.counter import counter_hash, fold

_LEVELS = 1 << 15
_LANES = 0x0001_0001_0001_0001
_FACTOR = -0x61C8_8646_80B5_83EB  # odd, 2^64 / golden ratio: multiplying by it spreads every bit upwards
_BLOCK = 1 << 16  # words; half a megabyte stays in the cache
_INTEGER = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of a floating-point number


def threshold(p: float) -> int:
    """How many of the 32,768 values of 15 bits drop an element."""
    return min(round(p * _LEVELS), _LEVELS - 1)


def rescale(p: float) -> float:
    """What a kept element is multiplied by."""
    return _LEVELS / (_LEVELS - threshold(p))


@lru_cache(maxsize=4)
def _words(device: torch.device) -> Tensor:
    """(block,) well-mixed words; a block of a mask is these, met by a key of its own and stirred once more."""
    return counter_hash(0, torch.arange(_BLOCK, device=device))


def dropped(shape: torch.Size | tuple[int, ...], p: float, key: int, device: torch.device) -> Int16[Tensor, "..."]:
    """int16 of this shape, negative where the element is dropped; element e is 16-bit lane e mod 4 of word e div 4."""
    size = torch.Size(shape).numel()
    count = (size + 3) // 4
    blocks = (count + _BLOCK - 1) // _BLOCK
    keys = counter_hash(key, torch.arange(blocks, device=device))
    words = (_words(device)[:count] ^ keys[:, None]).mul_(_FACTOR)
    words.bitwise_xor_((words >> 32).bitwise_and_(0xFFFF_FFFF))
    # In each lane, 2^15 + threshold - 1 - x has its sign bit set just where x < threshold, and borrows nothing from the next.
    words.bitwise_and_(0x7FFF * _LANES).neg_().add_(_signed((_LEVELS + threshold(p) - 1) * _LANES))
    return words.view(-1).view(torch.int16)[:size].view(shape)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def keep_mask(shape: torch.Size | tuple[int, ...], p: float, key: int, device: torch.device) -> Bool[Tensor, "..."]:
    """Bool tensor of this shape, true where the element is kept."""
    return dropped(shape, p, key, device) >= 0


def keep_bits(shape: torch.Size | tuple[int, ...], p: float, key: int, device: torch.device) -> Int16[Tensor, "..."]:
    """int16 of this shape: all bits set where the element is kept, none where it is dropped."""
    return dropped(shape, p, key, device).bitwise_right_shift_(15).bitwise_not_()


def zero_dropped(x: Float[Tensor, "*shape"], bits: Int16[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """x where `keep_bits` are set, else 0. An integer AND: multiplying by a bool tensor would first turn that into x's type."""
    return x.view(_INTEGER[x.element_size()]).bitwise_and(bits).view(x.dtype)


class _Drop(torch.autograd.Function):
    """x · mask · rescale."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, key: int) -> Tensor:
        bits = keep_bits(x.shape, p, key, x.device)
        ctx.save_for_backward(bits)
        ctx.rescale = rescale(p)
        return zero_dropped(x, bits).mul_(ctx.rescale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (bits,) = ctx.saved_tensors
        return zero_dropped(grad, bits).mul_(ctx.rescale), None, None


def drop(x: Float[Tensor, "*shape"], p: float, key: int) -> Float[Tensor, "*shape"]:
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

    def forward(self, x: Float[Tensor, "*shape"], number: int = 0) -> Float[Tensor, "*shape"]:
        return drop(x, *self.draw(number))

    def extra_repr(self) -> str:
        return f"p={self.p}"


def seed_dropout(module: nn.Module, seed: int | None) -> None:
    """Makes every later forward of `module` a pure function of (weights, batch, seed); None leaves masks to torch's generator."""
    places = [part for part in module.modules() if isinstance(part, Dropout)]
    for number, place in enumerate(places):
        place.seed, place.place = seed, number
