"""Claims about numbers of parameters, counted on the position scheme itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relpos.claims.finding import FAILS, HOLDS, Finding
from relpos.claims.network import position_parameters
from relpos.claims.scales import Scales


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

    def findings(self, scales: Scales) -> list[Finding]:
        counts = {name: position_parameters(f"position={name}", f"size={self.size}") for name in (*self.schemes, self.base)}
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

    def findings(self, scales: Scales) -> list[Finding]:
        own = position_parameters(*self.words)
        others = {" ".join(words): position_parameters(*words) for words in self.against}
        holds = own == self.number and all(other >= self.least * own for other in others.values())
        said = [f"{name}: {other:,}, {other / own:,.0f} times" for name, other in others.items()]
        return [Finding(HOLDS if holds else FAILS, "; ".join([f"{own:,}", *said]))]
