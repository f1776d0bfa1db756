"""Rules that need no training: equalities of formulas, properties of schemes, and numbers of parameters.

Formulas are computed in float64 on tiny networks with random weights. Two ways to compute the same differ by 1e-15, two different
things by far more.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from functools import cache
from math import exp
from typing import Any

import torch
from torch import Tensor

from relpos.analysis.properties import properties, randomise
from relpos.analysis.recording import added
from relpos.claims.rule import Rule, Test, once, rule
from relpos.claims.verdict import FAILS, HOLDS, Verdict
from relpos.config.compose import composed, resolved
from relpos.config.conf import shipped
from relpos.process import one_thread
from relpos.runs.model import counted_without_memory
from relpos.train.network import network as build_network

TINY = ["size=tiny", "size.hidden=16", "size.embedding=8", "size.heads=4", "size.ffn=16", "size.max_positions=16"]
TINY += ["vocabulary=40", "k=2"]
EQUAL = 1e-10
N = 12
"""Tokens; the networks have four heads of four channels, and k = 2."""
Shown = tuple[bool, str]
"""Whether a claim holds, and the figures that show it."""


def network(*overrides: str) -> Any:
    """A tiny masked language model in float64 with random weights, so that no term vanishes."""
    torch.manual_seed(0)
    model = build_network(resolved(composed("params", [*TINY, *overrides]))).double().eval()
    randomise(model, seed=1)
    return model


@cache
def position_parameters(*overrides: str) -> int:
    """How many parameters the position scheme of these overrides has."""
    return int(counted_without_memory(resolved(composed("params", overrides)))["position"])


@cache
def has_properties(name: str) -> dict[str, bool]:
    """Property of Table 1 → whether a scheme has it, see `relpos.analysis.properties`; parameters are counted at size=base."""
    count, table = (position_parameters(f"position={each}", "size=base") for each in (name, "absolute"))
    return properties(network(f"position={name}"), lambda model: list(model.encoder.position.parameters()), count, table)


def computed(says: str) -> Callable[[Callable[[], Shown]], Rule]:
    """Makes a rule of a computation on tiny networks that returns whether the claim holds, and the figures that show it."""

    def made(compute: Callable[[], Shown]) -> Rule:
        def judge(test: Test) -> Verdict:
            with one_thread():
                holds, figures = compute()
            return Verdict(HOLDS if holds else FAILS, figures)

        return rule(says, places=once)(judge)

    return made


@computed("both forms give the same scores")
@torch.no_grad()
def shaw_is_dynamic() -> Shown:
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


@computed("attention with the kernel inside equals attention plus a depthwise convolution of the values")
@torch.no_grad()
def depthwise_is_convolution() -> Shown:
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


@computed("permuting the tokens permutes the outputs without positions, and not with lightweight convolutions")
@torch.no_grad()
def order_is_ignored() -> Shown:
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
def tisa_is_fixed() -> Shown:
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


@computed("of the methods of Table 1 tisa alone shows all six properties when they are tried out (parameters: at size=base)")
def tisa_has_all_properties() -> Shown:
    has = {name: has_properties(name) for name in methods_of_table_1()}
    complete = [name for name, of_method in has.items() if all(of_method.values())]
    lacking = {name: ", ".join(key for key, yes in of_method.items() if not yes) for name, of_method in has.items()}
    said = [f"{name} lacks {what}" for name, what in lacking.items() if what]
    return complete == ["tisa"], f"all six: {', '.join(complete) or 'none'}; {'; '.join(said)}"


def methods_of_table_1() -> dict[str, dict[str, str]]:
    """The position schemes of Table 1 of Wennberg & Henter (2021), as options of `position` → what is printed of them."""
    with (shipped("experiments") / "printed" / "wennberg2021_properties.csv").open(newline="", encoding="utf-8") as file:
        return {row["position"]: row for row in csv.DictReader(file)}


@rule(lambda test, schemes, base, size: f"{', '.join(schemes)} have no more parameters than {base} at size={size}", places=once)
def no_more_than(test: Test, *, schemes: Sequence[str], base: str, size: str) -> Verdict:
    """Every one of `schemes` has at most as many parameters as `base`, in a network of the same size."""
    # Counted on the modules and not by formula: the formulas are tested against these.
    counts = {name: position_parameters(f"position={name}", f"size={size}") for name in (*schemes, base)}
    figures = ", ".join(f"{name} {number:,}" for name, number in counts.items())
    return Verdict(HOLDS if counts[base] == max(counts.values()) else FAILS, figures, f"size={size}")


@rule(
    lambda test, overrides, number, least, **_: (
        f"{' '.join(overrides)}: {number:,} parameters; the others at least {least:g} times as many"
    ),
    places=once,
)
def ratios(test: Test, *, overrides: Sequence[str], number: int, against: Sequence[Sequence[str]], least: float = 10.0) -> Verdict:
    """One scheme has exactly `number` parameters, and each of the others at least `least` times as many.

    `overrides` give the scheme and the size of the network; `against` has such overrides for each of the others.
    """
    count = position_parameters(*overrides)
    others = {" ".join(other): position_parameters(*other) for other in against}
    holds = count == number and all(other >= least * count for other in others.values())
    said = [f"{name}: {other:,}, {other / count:,.0f} times" for name, other in others.items()]
    return Verdict(HOLDS if holds else FAILS, "; ".join([f"{count:,}", *said]))


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
