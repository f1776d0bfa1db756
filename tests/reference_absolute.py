"""The formulas of schemes that depend on the positions of both tokens and not on their offset
alone, as plain float64 loops.

Terms as in `reference`; a turn is a function (scheme, layer, head, q, k, v) → q, k, v of one
sequence and head, each (n, head_dim) or None.
"""

import math
from typing import Any

import torch
from torch import Tensor


def _linear(x: Tensor, part: Any) -> Tensor:
    return part.weight @ x + part.bias


def _untied(scheme: Any, row: int, head: int) -> tuple[Tensor, Tensor]:
    """(LN(p) U_Q, LN(p) U_K) of one row of TUPE's table."""
    p, d_h = scheme.table[row], scheme.shape.head_dim
    mean = p.sum() / len(p)
    variance = ((p - mean) ** 2).sum() / len(p)
    p = (p - mean) / torch.sqrt(variance + 1e-5) * scheme.norm.weight + scheme.norm.bias
    part = slice(head * d_h, (head + 1) * d_h)
    return _linear(p, scheme.query)[part], _linear(p, scheme.key)[part]


def _t5_bucket(offset: int) -> int:
    base, far = (16 if offset > 0 else 0), abs(offset)
    return base + (
        far if far < 8 else min(15, 8 + int(math.log(far / 8) / math.log(16) * 8 + 1e-9))
    )


def tupe(scheme: Any, layer: int, head: int, i: int, j: int, q: Any, k: Any) -> Tensor:
    """(LN(p_i) U_Q)·(LN(p_j) U_K) / √(2 d_h); i = 0: row 0 with itself; else j = 0: row 1 with
    itself; token t has row t + 1."""
    query, key = (0, 0) if i == 0 else (1, 1) if j == 0 else (i + 1, j + 1)
    score = (_untied(scheme, query, head)[0] * _untied(scheme, key, head)[1]).sum() / math.sqrt(
        2 * scheme.shape.head_dim
    )
    if scheme.relative:
        score = score + scheme.buckets[16 if i == 0 else 32 if j == 0 else _t5_bucket(j - i), head]
    return score


def synthesizer_random(
    scheme: Any, layer: int, head: int, i: int, j: int, q: Any, k: Any
) -> Tensor:
    """R_ij, or Σ_r F_ri G_rj; in a mixture times s."""
    if scheme.rank is None:
        score = scheme.matrix[layer, head, i, j]
    else:
        score = sum(
            scheme.rows[layer, head, r, i] * scheme.columns[layer, head, r, j]
            for r in range(scheme.rank)
        )
    return score * _share(scheme, layer)


def synthesizer_dense(scheme: Any, layer: int, head: int, i: int, j: int, q: Any, k: Any) -> Tensor:
    """Σ_c max(0, q_ic) W_cj, or the product of two such sums; in a mixture times s."""

    def product(table: Tensor, column: int) -> Any:
        return sum(max(x, 0 * x) * table[layer, c, column] for c, x in enumerate(q[i]))

    if scheme.factor is None:
        score = product(scheme.weight, j)
    else:
        width = scheme.inner.shape[2]
        score = product(scheme.outer, j // width) * product(scheme.inner, j % width)
    return score * _share(scheme, layer)


def _share(scheme: Any, layer: int) -> Any:
    """s = 1 / (1 + exp(−α))"""
    return 1 / (1 + torch.exp(-scheme.alpha[layer])) if scheme.mixture else 1.0


def mixed(scheme: Any, layer: int, head: int, q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """(1 − s) q·k"""
    return (q * (1 - _share(scheme, layer)), k, v) if scheme.mixture else (q, k, v)


def flow(scheme: Any, t: float, p: Tensor) -> Tensor:
    """g(t, p)"""
    time = torch.tensor([t], dtype=p.dtype)
    inner = _linear(torch.cat((p, time)), scheme.first)
    return _linear(torch.cat((inner * (inner > 0), time)), scheme.second)


def trajectory(scheme: Any, layer: int, part: int, n: int, steps: int = 5) -> list[Tensor]:
    """p(0), p(0.01), …: Kutta's 3/8 rule, `steps` of equal length between two positions."""
    p, h, points = scheme.start[part, layer], 0.01 / steps, []
    for i in range(n):
        points.append(p)
        for step in range(steps):
            t = 0.01 * i + step * h
            k1 = flow(scheme, t, p)
            k2 = flow(scheme, t + h / 3, p + h * k1 / 3)
            k3 = flow(scheme, t + 2 * h / 3, p + h * (k2 - k1 / 3))
            k4 = flow(scheme, t + h, p + h * (k1 - k2 + k3))
            p = p + h * (k1 + 3 * k2 + 3 * k3 + k4) / 8
    return points


def carried(
    scheme: Any, layer: int, head: int, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, ...]:
    """q, k, v plus the trajectory of each."""
    part = slice(head * q.shape[1], (head + 1) * q.shape[1])
    return tuple(
        torch.stack(
            [
                row + p[part]
                for row, p in zip(x, trajectory(scheme, layer, number, len(x)), strict=True)
            ]
        )
        for number, x in enumerate((q, k, v))
    )
