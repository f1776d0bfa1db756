"""Equalities of formulas, computed in float64 on tiny networks with random weights: whether each holds, and what shows it.

`network` makes a tiny masked language model from overrides. Two ways to compute the same differ by 1e-15, two different things by
far more.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp
from typing import Any

import torch
from torch import Tensor

from relpos.analysis.recording import added

EQUAL = 1e-10
N = 12
"""Tokens; the networks have four heads of four channels, and k = 2."""
Network = Callable[..., Any]
Shown = tuple[bool, str]


@torch.no_grad()
def shaw_is_dynamic(network: Network) -> Shown:
    """Shaw et al.'s q·(k + R_{j−i})/√d_h equals the content score plus the term of `dynamic`."""
    position = network("position=dynamic").encoder.position
    q, k = _random(2, 4, N, 4), _random(2, 4, N, 4).flip(2)
    term = added(position.terms(0, q, k, position.prepare(N)), N)
    assert term is not None
    table = dict(position.named_parameters())["query"][0]  # (head_dim, 2k+1)
    rows = torch.stack([torch.stack([table[:, max(-2, min(2, j - i)) + 2] for j in range(N)]) for i in range(N)])  # (i, j, d)
    # As Shaw et al. write it, with a vector for each pair of tokens: slow, and nothing of our code is in it.
    shaw = (q[:, :, :, None] * (k[:, :, None] + rows)).sum(-1) / 2.0
    return _equal("scores", shaw, position.scale * q @ k.transpose(-1, -2) + term)


@torch.no_grad()
def depthwise_is_convolution(network: Network) -> Shown:
    """Σ_j (softmax_ij + w_{j−i,c}) v_{j,c} equals attention plus a depthwise convolution of the values."""
    conv = network("position=none", "conv=depthwise").encoder.layers[0].attention.conv
    weight, bias = conv.values.weight, conv.values.bias
    v, attention = _random(2, N, 16), torch.softmax(_random(2, N, N), -1)
    inside = torch.zeros(N, N, 16, dtype=torch.float64)
    for i in range(N):
        for j in range(max(0, i - 2), min(N, i + 3)):
            inside[i, j] = weight[:, j - i + 2]
    whole = ((attention[..., None] + inside) * v[:, None]).sum(2) + bias
    return _equal("outputs", whole, attention @ v + conv.after(v, None))


@torch.no_grad()
def order_is_ignored(network: Network) -> Shown:
    """Without positions, permuting the tokens just permutes the outputs; with lightweight convolutions it changes them, too."""
    ids = torch.randint(5, 39, (2, N), generator=torch.Generator().manual_seed(3))
    order = torch.randperm(N, generator=torch.Generator().manual_seed(4))
    distances = {}
    for name in ("none", "fixed", "dynamic", "composite"):
        encoder = network(f"position={name}").encoder
        distances[name] = _distance(encoder(ids[:, order]), encoder(ids)[:, order])
    # Both ways: a test that no scheme could fail would show nothing.
    holds = distances.pop("none") < EQUAL < min(distances.values())
    return holds, "none: equal; " * holds + ", ".join(f"{name} differs by {value:.1e}" for name, value in distances.items())


@torch.no_grad()
def tisa_is_fixed(network: Network) -> Shown:
    """A fixed kernel with β_o = f(o), f being TISA's formula, gives the terms of TISA."""
    tisa = network("position=tisa", "kernels=3").encoder.position
    fixed = network("position=fixed", f"k={N - 1}").encoder.position
    for head in range(4):
        for offset in range(1 - N, N):
            a, b, c = (getattr(tisa, name)[0, head].tolist() for name in ("amplitude", "sharpness", "centre"))
            bumps = (a[s] * exp(-abs(b[s]) * (c[s] - offset) ** 2) for s in range(3))
            fixed.beta[0, head, offset + N - 1] = sum(bumps)
    q = _random(1, 4, N, 4)
    terms = [added(scheme.terms(0, q, q, scheme.prepare(N)), N) for scheme in (tisa, fixed)]
    return _equal("scores", *(term for term in terms if term is not None))


def _random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def _distance(first: Tensor, second: Tensor) -> float:
    """The largest absolute difference."""
    return float((first - second).abs().max())


def _equal(what: str, first: Tensor, second: Tensor) -> Shown:
    """The verdict, in words that are the same on each processor: below the bound, a difference is its rounding."""
    distance = _distance(first, second)
    holds = distance < EQUAL
    return holds, f"{what} differ by {f'less than {EQUAL:.0e}' if holds else f'{distance:.0e}'}"
