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


def inkling(
    given: Given, scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor
) -> Tensor:
    """(W_r x_i)_h · P[:, j − i]; 0 beyond the extent"""
    extent, rank = (scheme.profiles.shape[2] - 1) // 2, scheme.profiles.shape[1]
    total = torch.zeros((), dtype=torch.float64)
    if abs(j - i) > extent:
        return total
    for r in range(rank):
        row = scheme.mix[layer, head * rank + r]
        total = total + (row * given.x[i]).sum() * scheme.profiles[layer, r, extent + j - i]
    return total


def fox(
    given: Given, scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor
) -> Tensor:
    """Σ ln σ(gate of l) over the real tokens l from the earlier token, left out, to the later one;
    a head has two rows of gates"""
    row = head if j < i else scheme.shape.heads + head
    total = torch.zeros((), dtype=torch.float64)
    for token in range(min(i, j) + 1, max(i, j) + 1):
        if given.real[token]:
            z = (scheme.gates[layer, row] * given.x[token]).sum() + scheme.gate_bias[layer, row]
            total = total - torch.log(1 + math.e ** (-z))
    return total


def _log_bucket(distance: int, buckets: int, max_distance: int) -> int:
    """i − j → its bucket, negative where j follows."""
    middle, far = buckets // 2, abs(distance)
    if far <= middle:
        return distance
    grown = math.log(far / middle) / math.log((max_distance - 1) / middle) * (middle - 1)
    return (middle + math.ceil(grown - 1e-9)) * (1 if distance > 0 else -1)


def deberta(
    given: Given, scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor
) -> Tensor:
    """(q_i · (W_K p)_δ + k_j · (W_Q p)_δ) / √(3 d_h) with p the normed row δ of the table, δ from
    bucket(i − j)"""
    row = _log_bucket(i - j, len(scheme.table) // 2, 512) + len(scheme.table) // 2
    p, d_h = scheme.table[min(max(row, 0), len(scheme.table) - 1)], scheme.shape.head_dim
    mean = p.sum() / len(p)
    p = (p - mean) / torch.sqrt(
        ((p - mean) ** 2).sum() / len(p) + 1e-7
    ) * scheme.norm.weight + scheme.norm.bias
    maps = given.attention.project if scheme.share else scheme.own[layer]
    vectors = maps.weight @ p + maps.bias  # queries of all heads with scores, then their keys
    first = head * d_h
    query, key = vectors[first : first + d_h], vectors[scheme.shape.heads * d_h + first :][:d_h]
    return ((q[i] * key).sum() + (k[j] * query).sum()) / math.sqrt(3 * d_h)


def selective_rope(
    given: Given, scheme: Any, layer: int, head: int, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(x, y) of channels 2m, 2m+1 at token t → (x cos − y sin, y cos + x sin) of the angle θ_m Σ φ
    over the real tokens up to t"""
    n, side, heads = len(q), scheme.side, scheme.shape.heads
    zero = torch.zeros((), dtype=torch.float64)

    def low(token: int, r: int) -> Tensor:
        """A number of D x̂; 0 for padding and beyond the row."""
        if not 0 <= token < n or not given.real[token]:
            return zero
        x = given.x[token]
        return (scheme.down[layer, r] * x).sum() * math.sqrt(heads) / torch.sqrt((x * x).sum())

    turned: tuple[list[list[Tensor]], ...] = ([], [])
    for m in range(q.shape[1] // 2):
        pair, angle = head * (q.shape[1] // 2) + m, zero
        for t in range(n):
            step = zero
            for o in range(-side, side + 1):
                for r in range(scheme.rank):
                    step = step + scheme.taps[layer, pair, o + side] * scheme.up[
                        layer, pair, r
                    ] * low(t + o, r)
            angle = angle + (step if given.real[t] else zero)
            turn = angle / scheme.base ** (2 * m / q.shape[1])
            for rows, table in zip(turned, (q, k), strict=True):
                x, y = table[t, 2 * m], table[t, 2 * m + 1]
                rows.append(
                    [
                        x * torch.cos(turn) - y * torch.sin(turn),
                        y * torch.cos(turn) + x * torch.sin(turn),
                    ]
                )
    q, k = (
        torch.stack([channel for t in range(n) for row in rows[t::n] for channel in row]).view(
            n, -1
        )
        for rows in turned
    )
    return q, k, v


def cope(
    given: Given, scheme: Any, layer: int, head: int, i: int, j: int, q: Tensor, k: Tensor
) -> Tensor:
    """q_i·e[p] with p = Σ σ(q_i·k_t / √d_h) over the real tokens t from j to i; e is interpolated,
    and ends with its last row"""
    place, table = torch.zeros((), dtype=torch.float64), scheme.table[layer, 1 if j > i else 0]
    for t in range(min(i, j), max(i, j) + 1):
        if given.real[t]:
            place = place + 1 / (1 + math.e ** (-(q[i] * k[t]).sum() / math.sqrt(len(q[i]))))
    row = int(place.detach())
    if row >= len(table) - 1:
        return (q[i] * table[-1]).sum()
    return (q[i] * table[row]).sum() * (row + 1 - place) + (q[i] * table[row + 1]).sum() * (
        place - row
    )
