"""Claims about numbers of parameters, counted on the network itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from relpos.claims.finding import FAILS, HOLDS, Finding


def of_position(*words: str) -> int:
    """Parameters of the position scheme that these words give; the network is built without memory."""
    from relpos.model.build import count
    from relpos.runs.config import compose
    from relpos.train.network import build_model

    with torch.device("meta"):
        return int(count(build_model(compose("params", list(words))))["position"])


@dataclass(frozen=True)
class NoMoreThan:
    """Each of `schemes` has no more parameters than `base` of the same size; all are options of `position`."""

    schemes: Sequence[str]
    base: str
    size: str

    @property
    def says(self) -> str:
        return f"{', '.join(self.schemes)} have no more parameters than {self.base}, size={self.size}"

    @property
    def rows(self) -> tuple[str, ...]:
        return ()

    def findings(self, scales: Any) -> list[Finding]:
        counts = {name: of_position(f"position={name}", f"size={self.size}") for name in (*self.schemes, self.base)}
        holds = all(counts[name] <= counts[self.base] for name in self.schemes)
        figures = ", ".join(f"{name} {number:,}" for name, number in counts.items())
        return [Finding(HOLDS if holds else FAILS, figures, f"size={self.size}")]


@dataclass(frozen=True)
class Ratios:
    """`position=…` of `words` has `number` parameters, and each of `against` at least `least` times as many."""

    words: Sequence[str]
    number: int
    against: Sequence[Sequence[str]]
    least: float = 10.0

    @property
    def says(self) -> str:
        return f"{' '.join(self.words)}: {self.number:,} parameters; the others at least {self.least:g} times as many"

    @property
    def rows(self) -> tuple[str, ...]:
        return ()

    def findings(self, scales: Any) -> list[Finding]:
        own = of_position(*self.words)
        others = {" ".join(words): of_position(*words) for words in self.against}
        holds = own == self.number and all(other >= self.least * own for other in others.values())
        said = [f"{name}: {other:,}, {other / own:,.0f} times" for name, other in others.items()]
        return [Finding(HOLDS if holds else FAILS, "; ".join([f"{own:,}", *said]))]
