"""The formulas of schemes that see a layer's input, padding or maps, as plain float64 loops.

Each has one argument before those of `reference.Term`: what the layer is given.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Given(NamedTuple):
    """One sequence: the attention module, its input by token, and which tokens are real."""

    attention: Any
    x: list[Tensor]
    real: list[bool]


def inkling(given: Given, scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor) -> Tensor:
    """(W_r x_i)_h · P[:, j − i]; 0 beyond the extent"""
    extent, rank = (scheme.profiles.shape[2] - 1) // 2, scheme.profiles.shape[1]
    total = torch.zeros((), dtype=torch.float64)
    if abs(j - i) > extent:
        return total
    for r in range(rank):
        row = scheme.mix[layer, head * rank + r]
        total = total + (row * given.x[i]).sum() * scheme.profiles[layer, r, extent + j - i]
    return total


def fox(given: Given, scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor) -> Tensor:
    """Σ ln σ(gate of l) over the real tokens l from the earlier token, left out, to the later one; a head has two rows of gates"""
    row = head if j < i else scheme.shape.heads + head
    total = torch.zeros((), dtype=torch.float64)
    for token in range(min(i, j) + 1, max(i, j) + 1):
        if given.real[token]:
            z = (scheme.gates[layer, row] * given.x[token]).sum() + scheme.gate_bias[layer, row]
            total = total - torch.log(1 + math.e ** (-z))
    return total
