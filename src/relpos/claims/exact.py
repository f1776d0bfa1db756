"""Judgements that need no training: proven formulas, properties of schemes, parameters."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch

from relpos.analysis.properties import properties, randomise
from relpos.claims.verdict import Judgement, Verdict
from relpos.config.compose import composed, resolved
from relpos.config.conf import shipped
from relpos.model.architecture import Architecture
from relpos.model.build import build, counted
from relpos.ranges import parsed
from relpos.results.scale import Scales
from relpos.results.statistics import FAILS, HOLDS

TINY = ["size=tiny", "size.hidden=16", "size.embedding=8", "size.heads=4", "size.ffn=16"]
TINY += ["size.max_positions=16", "vocabulary=40", "k=2"]


def architecture_of(*overrides: str) -> Architecture:
    return parsed(Architecture, resolved(composed("params", overrides)))


@cache
def position_parameters(*overrides: str) -> int:
    """The number of parameters of the position scheme of these overrides."""
    return int(counted(architecture_of(*overrides))["position"])


@cache
def has_properties(name: str) -> dict[str, bool]:
    """Property of Table 1 → whether a scheme has it, tried on a tiny network in float64 with random
    weights; parameters are counted at size=base."""
    torch.manual_seed(0)
    model = build(architecture_of(*TINY, f"position={name}")).double().eval()
    randomise(model, seed=1)  # so that no term vanishes
    count = position_parameters(f"position={name}", "size=base")
    table = position_parameters("position=absolute", "size=base")
    return properties(model, lambda built: list(built.encoder.position.parameters()), count, table)


def methods_of_table_1() -> dict[str, dict[str, str]]:
    """The schemes of Table 1 of Wennberg & Henter (2021), as options of `position` → its row."""
    path = shipped("experiments") / "printed" / "wennberg2021_properties.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return {row["position"]: row for row in csv.DictReader(file)}


@dataclass(frozen=True)
class Proven(Judgement):
    """A formula of the code is that of the claim, whatever the weights: a test shows it.

    Args:
        formula: what the test shows.
        by: the tests, as `FILE::NAME`.
    """

    formula: str
    by: Sequence[str]

    @property
    def says(self) -> str:
        return self.formula

    def verdicts(self, runs: Scales) -> list[Verdict]:
        return [Verdict(HOLDS, f"shown by {' and '.join(self.by)}", "at any size")]


@dataclass(frozen=True)
class AllProperties(Judgement):
    """One method of Table 1 of Wennberg & Henter (2021) has all six properties, and no other has.

    Args:
        scheme: the method, an option of `position`.
    """

    scheme: str

    @property
    def says(self) -> str:
        return (
            f"of the methods of Table 1 {self.scheme} alone has all six properties, each tried out"
        )

    def verdicts(self, runs: Scales) -> list[Verdict]:
        # A second thread slows operations of microseconds down, many times over on a busy machine,
        # where it has to wait for a core.
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            lacking = {
                name: [key for key, has in has_properties(name).items() if not has]
                for name in methods_of_table_1()
            }
        finally:
            torch.set_num_threads(threads)
        complete = [name for name, keys in lacking.items() if not keys]
        figures = [f"all six: {', '.join(complete) or 'none'}"]
        figures += [f"{name} lacks {', '.join(keys)}" for name, keys in lacking.items() if keys]
        word = HOLDS if complete == [self.scheme] else FAILS
        return [Verdict(word, "; ".join(figures), "at any size")]


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
        exactly, more = "", "no fewer"
        if self.number is not None:
            exactly = f"{self.number:,}, and "
        if self.times > 1:
            more = f"at least {self.times:g} times as many"
        return f"{', '.join(self.few)}: {exactly}{more} parameters in {', '.join(self.many)}"

    def verdicts(self, runs: Scales) -> list[Verdict]:
        counts = {name: position_parameters(*name.split()) for name in (*self.few, *self.many)}
        few = [counts[name] for name in self.few]
        many = [counts[name] for name in self.many]
        is_number = self.number is None or {*few} == {self.number}
        figures = [f"{name}: {count:,}" for name, count in counts.items()]
        figures += [f"{count / max(few):,.0f} times" for count in many if self.times > 1]
        word = HOLDS if is_number and max(few) * self.times <= min(many) else FAILS
        return [Verdict(word, ", ".join(figures), "counted")]
