"""Random numbers without a state: an integer hash of a counter.

What is drawn depends on the keys alone, not on the device, the number of processes or what was
drawn before. Everything that must come out the same after an interruption or on another machine
(initial weights, order, masks, dropout) is drawn here.

The mixing function is the finaliser of splitmix64 (Steele, Lea & Flood 2014, "Fast splittable
pseudorandom number generators"). All arithmetic is on int64, which wraps the same way everywhere.
"""

from __future__ import annotations

import torch
from torch import Tensor

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: consecutive keys land far apart
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def signed(word: int) -> int:
    """The int64 with the same 64 bits."""
    word &= _WORD
    return word - (1 << 64) if word >> 63 else word


def _mix(word: int) -> int:
    word = (word + _GOLDEN) & _WORD
    for shift, factor in _ROUNDS:
        word = ((word ^ (word >> shift)) * factor) & _WORD
    return word ^ (word >> 31)


def _mix_(words: Tensor) -> Tensor:
    """`_mix` in place. A right shift of a signed number copies the sign, hence the masks."""
    words.add_(signed(_GOLDEN))
    for shift, factor in _ROUNDS:
        words.bitwise_xor_((words >> shift).bitwise_and_((1 << (64 - shift)) - 1)).mul_(
            signed(factor)
        )
    return words.bitwise_xor_((words >> 31).bitwise_and_((1 << 33) - 1))


def fold(*keys: int) -> int:
    """The hash of some integers as an int64; equals `counter_hash(*keys)`."""
    word = 0
    for key in keys:
        word = _mix(word ^ (key & _WORD))
    return signed(word)


def counter_hash(*keys: int | Tensor) -> Tensor:
    """(...) int64 of uniformly distributed bits, one for each element of the keys broadcast against
    one another."""
    state: int | Tensor = 0
    for key in keys:
        if isinstance(key, Tensor):
            state = _mix_(key.to(torch.int64) ^ state)
        elif isinstance(state, Tensor):
            state = _mix_(state ^ signed(key))
        else:
            state = signed(_mix((state ^ key) & _WORD))
    return state if isinstance(state, Tensor) else torch.tensor(state)


def uniform(*keys: int | Tensor) -> Tensor:
    """(...) float32 in [0, 1), multiples of 2^-24."""
    # 24 bits, as many as a float32 holds exactly: with more, rounding could give 1.
    bits = (counter_hash(*keys) >> 40).bitwise_and_((1 << 24) - 1)
    return bits.to(torch.float32) * 2.0**-24


def normal(*keys: int | Tensor) -> Tensor:
    """(...) float32 from N(0, 1): the inverse of its distribution function at the odd multiples of
    2^-25.

    There are 2^23 absolute values. In float64 none of them lies within 20 units in the last place
    of a point where rounding to float32 turns, and implementations of `ndtri` differ by 5. So the
    rounded values are the same with every processor and library.
    """
    bits = counter_hash(*keys) >> 40
    lower_half = (bits & ((1 << 23) - 1)).to(torch.float64).add_(0.5).mul_(2.0**-24)
    return torch.special.ndtri(lower_half).to(torch.float32).copysign_(bits)
