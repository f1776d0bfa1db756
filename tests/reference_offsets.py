"""The formulas of schemes that depend on the offset alone, of rotary positions and of merged
schemes, as plain float64 loops.

Terms and turns as in `reference`.
"""

import math
from typing import Any

import torch
from torch import Tensor


def t5_bucket(offset: int, buckets: int, max_distance: int) -> int:
    """Right of the token: the second half. Half of each half hold one distance, the others a range
    that grows by a factor."""
    side, far = buckets // 2, abs(offset)
    exact = side // 2
    base = side if offset > 0 else 0
    if far < exact:
        return base + far
    share = math.log(far / exact) / math.log(max_distance / exact)
    return base + min(side - 1, exact + math.floor(share * (side - exact) + 1e-9))


def t5(scheme: Any, layer: int, head: int, i: int, j: int, q: Any, k: Any) -> Tensor:
    """B[h, bucket(j − i)]"""
    return scheme.table[head, t5_bucket(j - i, 32, 128)]


def tisa(scheme: Any, layer: int, head: int, i: int, j: int, q: Any, k: Any) -> Tensor:
    """Σ_s a_s exp(−|b_s| (c_s − (j − i))²)"""
    total = torch.zeros((), dtype=torch.float64)
    for s in range(scheme.kernels):
        a, b, c = (x[layer, head, s] for x in (scheme.amplitude, scheme.sharpness, scheme.centre))
        total = total + a * torch.exp(-abs(b) * (c - (j - i)) ** 2)
    return total


def slope(head: int, heads: int) -> float:
    """Head by head: 2^(−8/H), its square, … for a power of two; the rest beyond one from every
    second of the double number."""
    power = 1
    while 2 * power <= heads:
        power *= 2
    if head < power:
        return math.pow(2, -8 / power) ** (head + 1)
    return slope(2 * (head - power), 2 * power)


def alibi(scheme: Any, layer: int, head: int, i: int, j: int, q: Any, k: Any) -> float:
    """−m_h |i − j|; shifted, half a token less to the right; by halves, each head on its side, with
    the slopes of its half"""
    heads = scheme.shape.heads
    if scheme.sides == "half":
        left = (heads + 1) // 2
        m = slope(head, left) if head < left else slope(head - left, heads - left)
        return dual_triangle(scheme, layer, head, i, j, q, k) - m * abs(i - j)
    return -slope(head, heads) * (abs(i - j) - (0.5 if scheme.sides == "shift" and j > i else 0))


def fire(scheme: Any, layer: int, head: int, i: int, j: int, q: Any, k: Any) -> Tensor:
    """Σ_u W_2[h, u] max(0, W_1[u] x + b_1[u]) + b_2[h], x = ln(1 + |c (j − i)|) / (ln(1 + |512 c
    m|) + 1e-6), or signed"""
    x = torch.log(1 + abs(scheme.c * (j - i))) / (
        torch.log(1 + abs(scheme.c * scheme.multiplier * 512)) + 1e-6
    )
    if scheme.sign and j < i:
        x = -x
    total = scheme.outer_bias[head]
    for u in range(scheme.width):
        inner = scheme.inner[u] * x + scheme.inner_bias[u]
        if inner > 0:
            total = total + scheme.outer[head, u] * inner
    return total


def dual_triangle(scheme: Any, layer: int, head: int, i: int, j: int, q: Any, k: Any) -> float:
    """−∞ where the head does not look: to the right in the first half of the heads, to the left in
    the others"""
    heads = scheme.shape.heads
    looks_left = head < (heads + 1) // 2
    return -math.inf if (j > i if looks_left else j < i) else 0.0


def _clamped(x: Tensor, least: float, most: float = math.inf) -> Tensor:
    return (
        x
        if least <= x.item() <= most
        else torch.tensor(min(max(x.item(), least), most), dtype=torch.float64)
    )


def kerple(scheme: Any, layer: int, head: int, i: int, j: int, q: Any, k: Any) -> Tensor:
    """−p ln(1 + a |i − j|)"""
    return -_clamped(scheme.p[head], 0.01) * torch.log(
        1 + _clamped(scheme.a[head], 0.01) * abs(i - j)
    )


def kerple_power(
    scheme: Any, layer: int, head: int, i: int, j: int, q: Any, k: Any
) -> Tensor | float:
    """−a |i − j|^p"""
    if i == j:
        return 0.0
    return -_clamped(scheme.a[head], 0.01) * torch.exp(
        _clamped(scheme.p[head], 0.01, 2) * math.log(abs(i - j))
    )


def positions(scheme: Any, n: int) -> list[int]:
    """Where n tokens stand: 0, 1, …, or as drawn, which is taken from the scheme as its parameters
    are."""
    return [int(position) for position in scheme.positions(n, torch.device("cpu"))]


def turned(
    scheme: Any, layer: int, head: int, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """(x, y) of channels 2m, 2m+1 at position p → (x cos − y sin, y cos + x sin) of the angle p
    base^(−2m/head_dim), 0 from pair fraction · head_dim/2 on"""

    def turn(table: Tensor) -> Tensor:
        rows = []
        for p, row in zip(positions(scheme, len(table)), table, strict=True):
            channels = []
            for m in range(len(row) // 2):
                angle = (
                    p / scheme.base ** (2 * m / len(row))
                    if m + 1 <= scheme.fraction * (len(row) / 2)
                    else 0.0
                )
                x, y = row[2 * m], row[2 * m + 1]
                channels += [
                    x * math.cos(angle) - y * math.sin(angle),
                    y * math.cos(angle) + x * math.sin(angle),
                ]
            rows.append(torch.stack(channels))
        return torch.stack(rows)

    return turn(q), turn(k), turn(v) if scheme.values else v


def polar(
    scheme: Any, layer: int, head: int, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Channel c at position p → softplus of it times cos and sin of the angle p base^(−c/head_dim),
    for keys + δ from −2π to 0"""

    def turn(table: Tensor, shift: Any) -> Tensor:
        rows = []
        for p, row in zip(positions(scheme, len(table)), table, strict=True):
            channels = []
            for c in range(len(row)):
                angle = shift[c].clamp(-2 * math.pi, 0) + p / scheme.base ** (c / len(row))
                length = torch.log(1 + torch.exp(row[c]))
                channels += [length * torch.cos(angle), length * torch.sin(angle)]
            rows.append(torch.stack(channels))
        return torch.stack(rows)

    return turn(q, torch.zeros(q.shape[1], dtype=torch.float64)), turn(k, scheme.shift[head]), v
