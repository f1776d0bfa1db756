"""Keys of dropout in memory of the device, so that a recorded forward pass draws new masks each time it is replayed."""

from __future__ import annotations

import torch
from jaxtyping import Int64
from torch import Tensor

from relpos.counter import fold

ROOM = 1024
"""Uses of dropout in one forward pass: places × passes through a layer."""


class RecordedKeys:
    """Takes the place of a seed: the key of each use of dropout is an element of one tensor, written by `fill` before each step."""

    def __init__(self, device: torch.device) -> None:
        self.values: Int64[Tensor, "room"] = torch.zeros(ROOM, dtype=torch.int64, device=device)
        self.seed = 0
        self.uses: dict[tuple[int, int], int] = {}

    def fill(self, seed: int) -> None:
        """Writes the keys of this seed, without waiting for the device."""
        self.seed = seed
        if self.uses:
            keys = torch.tensor([fold(seed, place, number) for place, number in self.uses])
            if self.values.device.type == "cuda":
                keys = keys.pin_memory()
            self.values[: len(keys)].copy_(keys, non_blocking=True)

    def key(self, place: int, number: int) -> Int64[Tensor, ""]:
        """The key of one use, fold(seed, place, number); a new use gets an element of its own."""
        use = place, number
        if use not in self.uses:
            self.uses[use] = len(self.uses)
            self.values[self.uses[use]] = fold(self.seed, place, number)
        return self.values[self.uses[use]]
