"""Rules that need no training: equalities and properties of schemes, computed in float64 on networks of random weights."""

from __future__ import annotations

import csv
from collections.abc import Callable
from math import exp
from typing import Any

import torch
from torch import Tensor

from relpos.analysis.properties import properties
from relpos.analysis.recording import added
from relpos.claims.counts import position_parameters
from relpos.claims.rule import Rule, Test, once, rule
from relpos.claims.verdict import FAILS, HOLDS, Verdict
from relpos.config.compose import composed, resolved
from relpos.config.conf import shipped
from relpos.process import one_thread
from relpos.train.network import build_model

EQUAL = 1e-10
TINY = (
    "size=tiny",
    "size.hidden=16",
    "size.embedding=8",
    "size.heads=4",
    "size.ffn=16",
    "size.max_positions=16",
    "vocabulary=40",
    "k=2",
)
N = 12


def computed(says: str) -> Callable[[Callable[[], tuple[bool, str]]], Rule]:
    """Makes a rule of a computation that returns whether the claim holds, and the figures that show it."""

    def made(compute: Callable[[], tuple[bool, str]]) -> Rule:
        def look(test: Test) -> Verdict:
            with one_thread():
                holds, figures = compute()
            return Verdict(HOLDS if holds else FAILS, figures)

        return rule(says, places=once)(look)

    return made


def network(*overrides: str) -> Any:
    """A tiny masked language model in float64. Weights that begin as zeros are made random, so that no term vanishes."""
    # In float64, where two ways to compute the same differ by 1e-15, and two different things by far more.
    torch.manual_seed(0)
    model = build_model(resolved(composed("params", [*TINY, *overrides]))).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return model


def _random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def _distance(first: Tensor, second: Tensor) -> float:
    """The largest absolute difference."""
    return float((first - second).abs().max())


def _equal(distance: float, of: str) -> tuple[bool, str]:
    """The verdict, in words that are the same on each processor: below the bound, a difference is its rounding."""
    holds = distance < EQUAL
    return holds, f"{of} differ by {f'less than {EQUAL:.0e}' if holds else f'{distance:.0e}'}"


@computed("both forms give the same scores")
@torch.no_grad()
def shaw_is_dynamic() -> tuple[bool, str]:
    """Shaw et al.'s q·(k + R_{j−i})/√d_h equals the content score plus the term of `dynamic`."""
    position = network("position=dynamic").encoder.position
    q, k = _random(2, 4, N, 4), _random(2, 4, N, 4).flip(2)
    terms = position.terms(0, q, k, position.prepare(N))
    term = added(terms, N)
    assert term is not None
    table = dict(position.named_parameters())["query"][0]  # (head_dim, 2k+1)
    rows = torch.stack([torch.stack([table[:, max(-2, min(2, j - i)) + 2] for j in range(N)]) for i in range(N)])  # (i, j, d)
    # As Shaw et al. write it, with a vector for each pair of tokens: slow, and nothing of our code is in it.
    shaw = (q[:, :, :, None] * (k[:, :, None] + rows)).sum(-1) / 2.0
    distance = _distance(shaw, position.scale * q @ k.transpose(-1, -2) + term)
    return _equal(distance, "scores")


@computed("attention with the kernel inside equals attention plus a depthwise convolution of the values")
@torch.no_grad()
def depthwise_is_convolution() -> tuple[bool, str]:
    """Σ_j (softmax_ij + w_{j−i,c}) v_{j,c} equals attention plus a depthwise convolution of the values."""
    conv = network("position=none", "conv=depthwise").encoder.layers[0].attention.conv
    weight, bias = conv.values.weight, conv.values.bias
    v, shares = _random(2, N, 16), torch.softmax(_random(2, N, N), -1)
    inside = torch.zeros(N, N, 16, dtype=torch.float64)
    for i in range(N):
        for j in range(max(0, i - 2), min(N, i + 3)):
            inside[i, j] = weight[:, j - i + 2]
    whole = ((shares[..., None] + inside) * v[:, None]).sum(2) + bias
    distance = _distance(whole, shares @ v + conv.after(v, None))
    return _equal(distance, "outputs")


@computed("permuting the tokens permutes the outputs without positions, and not with lightweight convolutions")
@torch.no_grad()
def order_is_ignored() -> tuple[bool, str]:
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


@computed("a fixed kernel that holds f(j − i) gives the scores of TISA")
@torch.no_grad()
def tisa_is_fixed() -> tuple[bool, str]:
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
    of_tisa, of_fixed = (term for term in terms if term is not None)
    distance = _distance(of_tisa, of_fixed)
    return _equal(distance, "scores")


@computed("of the methods of Table 1 tisa alone shows all six properties when they are tried out (parameters: at size=base)")
def tisa_has_all_properties() -> tuple[bool, str]:
    """Each of the six properties of Table 1 is tested on a network, see `relpos.analysis.properties`; counts are at size=base."""
    table = position_parameters("position=absolute", "size=base")
    has: dict[str, dict[str, bool]] = {}
    for name in methods_of_table_1():
        count = position_parameters(f"position={name}", "size=base")
        has[name] = properties(network(f"position={name}"), lambda model: list(model.encoder.position.parameters()), count, table)
    complete = [name for name, of_method in has.items() if all(of_method.values())]
    lacking = {name: ", ".join(key for key, yes in of_method.items() if not yes) for name, of_method in has.items()}
    said = [f"{name} lacks {what}" for name, what in lacking.items() if what]
    return complete == ["tisa"], f"all six: {', '.join(complete) or 'none'}; {'; '.join(said)}"


def methods_of_table_1() -> list[str]:
    """The position schemes of Table 1 of Wennberg & Henter (2021), as options of `position`."""
    with (shipped("experiments") / "printed" / "wennberg2021_properties.csv").open(newline="", encoding="utf-8") as file:
        return [row["position"] for row in csv.DictReader(file)]
