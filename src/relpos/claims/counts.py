"""Claims about numbers of parameters, counted on the position scheme itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relpos.claims.finding import FAILS, HOLDS, Finding
from relpos.claims.network import position_parameters
from relpos.claims.scales import Scales


@dataclass(frozen=True)
class NoMoreThan:
    """Every scheme has at most as many parameters as `base`, in a network of the same size.

    Args:
        schemes: options of `position`.
        base: the option that they are compared with.
        size: an option of `size`.
    """

    schemes: Sequence[str]
    base: str
    size: str

    @property
    def says(self) -> str:
        return f"{', '.join(self.schemes)} have no more parameters than {self.base} at size={self.size}"

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
    """One scheme has exactly `number` parameters, and each of the others at least `least` times as many.

    Args:
        overrides: they give the scheme and the size of the network.
        number: of its parameters.
        against: for each of the others, such overrides.
        least: the least ratio.
    """

    overrides: Sequence[str]
    number: int
    against: Sequence[Sequence[str]]
    least: float = 10.0

    @property
    def says(self) -> str:
        return f"{' '.join(self.overrides)}: {self.number:,} parameters; the others at least {self.least:g} times as many"

    @property
    def rows(self) -> tuple[str, ...]:
        return ()

    def findings(self, scales: Scales) -> list[Finding]:
        count = position_parameters(*self.overrides)
        others = {" ".join(overrides): position_parameters(*overrides) for overrides in self.against}
        holds = count == self.number and all(other >= self.least * count for other in others.values())
        said = [f"{name}: {other:,}, {other / count:,.0f} times" for name, other in others.items()]
        return [Finding(HOLDS if holds else FAILS, "; ".join([f"{count:,}", *said]))]
