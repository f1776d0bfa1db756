"""Judgements that need no training: equalities of formulas, properties of schemes, parameters.

Formulas are computed in float64 on tiny networks with random weights. Two ways to compute the same
number differ by 1e-15, two different formulas by far more.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp
from typing import Any

import torch
from torch import Tensor

from relpos.analysis.properties import properties, randomise
from relpos.analysis.recording import added
from relpos.claims.verdict import Judgement, Verdict
from relpos.config.compose import composed, resolved
from relpos.config.conf import shipped
from relpos.errors import refuse_unknown
from relpos.process import one_thread
from relpos.results.scale import Scales
from relpos.results.statistics import FAILS, HOLDS
from relpos.train.network import counted_without_memory
from relpos.train.network import network as build_network

TINY = ["size=tiny", "size.hidden=16", "size.embedding=8", "size.heads=4", "size.ffn=16"]
TINY += ["size.max_positions=16", "vocabulary=40", "k=2"]
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
    """The number of parameters of the position scheme of these overrides."""
    return int(counted_without_memory(resolved(composed("params", overrides)))["position"])


@cache
def has_properties(name: str) -> dict[str, bool]:
    """Property of Table 1 → whether a scheme has it, see `relpos.analysis.properties`; parameters
    are counted at size=base."""
    model = network(f"position={name}")
    count = position_parameters(f"position={name}", "size=base")
    table = position_parameters("position=absolute", "size=base")
    return properties(model, lambda built: list(built.encoder.position.parameters()), count, table)


@torch.no_grad()
def shaw_is_dynamic() -> Shown:
    """Shaw et al.'s q·(k + R_{j−i})/√d_h is the content score plus the term of `dynamic`."""
    position = network("position=dynamic").encoder.position
    q, k = _random(2, 4, N, 4), _random(2, 4, N, 4).flip(2)
    term = added(position.terms(0, q, k, position.prepare(N)), N)
    assert term is not None
    table = dict(position.named_parameters())["query"][0]  # (head_dim, 2k+1)
    offsets = [[max(-2, min(2, j - i)) + 2 for j in range(N)] for i in range(N)]
    rows = table.T[torch.tensor(offsets)]  # (i, j, head_dim)
    # As Shaw et al. write it, with a vector for each pair of tokens, without any of our code.
    shaw = (q[:, :, :, None] * (k[:, :, None] + rows)).sum(-1) / 2.0
    return _equal("scores", shaw, position.scale * q @ k.transpose(-1, -2) + term)


@torch.no_grad()
def depthwise_is_convolution() -> Shown:
    """Σ_j (softmax_ij + w_{j−i,c}) v_{j,c} is attention plus a depthwise convolution of v."""
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
def order_is_ignored() -> Shown:
    """Permuting the tokens permutes the outputs without positions, and not with lightweight
    convolutions."""
    ids = torch.randint(5, 39, (2, N), generator=torch.Generator().manual_seed(3))
    order = torch.randperm(N, generator=torch.Generator().manual_seed(4))
    distances = {}
    for name in ("none", "fixed", "dynamic", "composite"):
        encoder = network(f"position={name}").encoder
        distances[name] = _distance(encoder(ids[:, order]), encoder(ids)[:, order])
    # Both ways: a test that no scheme could fail would show nothing.
    holds = distances.pop("none") < EQUAL < min(distances.values())
    differences = [f"{name} differs by {value:.1e}" for name, value in distances.items()]
    return holds, "none: equal; " * holds + ", ".join(differences)


@torch.no_grad()
def tisa_is_fixed() -> Shown:
    """A fixed kernel that holds f(j − i), f being TISA's formula, gives the scores of TISA."""
    tisa = network("position=tisa", "kernels=3").encoder.position
    fixed = network("position=fixed", f"k={N - 1}").encoder.position
    names = ("amplitude", "sharpness", "centre")
    for head in range(4):
        a, b, c = (getattr(tisa, name)[0, head].tolist() for name in names)
        for offset in range(1 - N, N):
            bumps = (a[s] * exp(-abs(b[s]) * (c[s] - offset) ** 2) for s in range(3))
            fixed.beta[0, head, offset + N - 1] = sum(bumps)
    q = _random(1, 4, N, 4)
    first, second = (added(scheme.terms(0, q, q, scheme.prepare(N)), N) for scheme in (tisa, fixed))
    assert first is not None
    assert second is not None
    return _equal("scores", first, second)


def tisa_has_all_properties() -> Shown:
    """Of the methods of Table 1 tisa alone shows all six properties when they are tried out."""
    has = {name: has_properties(name) for name in methods_of_table_1()}
    complete = [name for name, of_method in has.items() if all(of_method.values())]
    figures = [f"all six: {', '.join(complete) or 'none'}"]
    for name, of_method in has.items():
        if name not in complete:
            lacking = ", ".join(key for key, yes in of_method.items() if not yes)
            figures.append(f"{name} lacks {lacking}")
    return complete == ["tisa"], "; ".join(figures)


FORMULAS = (shaw_is_dynamic, depthwise_is_convolution, order_is_ignored, tisa_is_fixed)
COMPUTATIONS = {check.__name__: check for check in (*FORMULAS, tisa_has_all_properties)}


def methods_of_table_1() -> dict[str, dict[str, str]]:
    """The schemes of Table 1 of Wennberg & Henter (2021), as options of `position` → its row."""
    path = shipped("experiments") / "printed" / "wennberg2021_properties.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return {row["position"]: row for row in csv.DictReader(file)}


@dataclass(frozen=True)
class Computed(Judgement):
    """A computation on tiny networks shows that the claim is true.

    Args:
        what: one of `COMPUTATIONS`, whose docstring is the condition.
    """

    what: str

    def __post_init__(self) -> None:
        refuse_unknown("unknown computation", self.what, COMPUTATIONS)

    @property
    def says(self) -> str:
        docstring = " ".join((COMPUTATIONS[self.what].__doc__ or "").split())
        return docstring[:1].lower() + docstring[1:].rstrip(".")

    def verdicts(self, runs: Scales) -> list[Verdict]:
        with one_thread():
            holds, figures = COMPUTATIONS[self.what]()
        return [Verdict(HOLDS if holds else FAILS, figures, "at any size")]


@dataclass(frozen=True)
class Parameters(Judgement):
    """Schemes have no more parameters than others, or so many times fewer, counted on the modules.

    Args:
        few: overrides of each scheme, in one text.
        many: overrides of schemes that have more.
        times: the least factor by which they have more.
        number: the number of parameters of each of `few`; None: any number.
    """

    few: Sequence[str]
    many: Sequence[str]
    times: float = 1.0
    number: int | None = None

    @property
    def says(self) -> str:
        exactly = f"{self.number:,}, and " if self.number is not None else ""
        more = f"at least {self.times:g} times as many" if self.times > 1 else "no fewer"
        return f"{', '.join(self.few)}: {exactly}{more} parameters in {', '.join(self.many)}"

    def verdicts(self, runs: Scales) -> list[Verdict]:
        counts = {name: position_parameters(*name.split()) for name in (*self.few, *self.many)}
        most = max(counts[name] for name in self.few)
        least = min(counts[name] for name in self.many)
        is_number = self.number is None or {counts[name] for name in self.few} == {self.number}
        figures = [f"{name}: {count:,}" for name, count in counts.items()]
        figures += [f"{counts[name] / most:,.0f} times" for name in self.many if self.times > 1]
        word = HOLDS if is_number and most * self.times <= least else FAILS
        return [Verdict(word, ", ".join(figures), "counted")]


def _random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def _distance(first: Tensor, second: Tensor) -> float:
    """The largest absolute difference."""
    return float((first - second).abs().max())


def _equal(quantity: str, first: Tensor, second: Tensor) -> Shown:
    """Whether two tensors are equal, in words that are the same on each processor: a difference
    below the bound depends on its rounding."""
    distance = _distance(first, second)
    if distance < EQUAL:
        return True, f"{quantity} differ by less than {EQUAL:.0e}"
    return False, f"{quantity} differ by {distance:.0e}"
