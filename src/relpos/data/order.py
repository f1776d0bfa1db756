"""The order of the pairs: a permutation of 0 … count-1 that is computed where it is needed and never stored.

A Feistel network over the smallest even number of bits that holds `count`, applied again to results that are not below `count`
(cycle walking, Black & Rogaway 2002, "Ciphers with arbitrary finite domains"). Integer operations only: the same on every device.
Differs from the authors' code: they shuffle once and repeat that order; here every epoch has its own.
"""

from __future__ import annotations

import torch
from torch import Tensor

from relpos.counter import counter_hash

ROUNDS = 6


def order(count: int, epoch: int, seed: int, positions: Tensor) -> Tensor:
    """Which pair stands at `positions` (any shape, each in [0, count)) of an epoch: a bijection of [0, count)."""
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    out = _feistel(positions, half, epoch, seed)
    while bool((outside := out >= count).any()):  # at most 4 times as many values as pairs: few rounds
        out = torch.where(outside, _feistel(out, half, epoch, seed), out)
    return out


def _feistel(x: Tensor, half: int, epoch: int, seed: int) -> Tensor:
    low = (1 << half) - 1
    left, right = x >> half, x & low
    for number in range(ROUNDS):
        left, right = right, left ^ (counter_hash(seed, epoch, number, right) & low)
    return (left << half) | right
