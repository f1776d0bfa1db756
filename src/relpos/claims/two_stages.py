"""Claims about training on short text first and on longer text later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relpos.claims.finding import FAILS, HOLDS, UNDECIDED, Finding
from relpos.claims.scales import Scale, Scales
from relpos.runs.run import read_record
from relpos.tables.statistics import Difference, independent, paired


@dataclass(frozen=True)
class TwoStages:
    """Held-out loss at full length after two stages, against that of as many steps at full length alone; all else being equal.

    Holds: the 95 % interval over pre-training seeds of what two stages lose lies below `bound` for `row`; fails: above. What the
    `others` lose stands beside it. One seed each leaves it undecided.
    """

    row: str
    others: Sequence[str] = ()
    bound: float = 0.02

    @property
    def says(self) -> str:
        return f"with {self.row}, two stages lose less than {self.bound} in held-out loss at full length"

    @property
    def rows(self) -> tuple[str, ...]:
        return self.row, *self.others

    def findings(self, scales: Scales) -> list[Finding]:
        found = []
        for group in scales.alike("first"):
            whole = next((scale for scale in group if "first" not in scale.meaning), None)
            for two in group:
                if whole is not None and two is not whole and self.row in whole.folders and self.row in two.folders:
                    found.append(self.at(whole, two))
        return found

    def at(self, whole: Scale, two: Scale) -> Finding:
        """Of one pair of scales that have `row`."""
        lost = {row: _lost(whole, two, row) for row in self.rows if row in whole.folders and row in two.folders}
        said = ", ".join(f"{row} {found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]" for row, found in lost.items() if found)
        alone = ", ".join(
            f"{row} {_mean(_losses(two, row)) - _mean(_losses(whole, row)):+.3f} (too few seeds)"
            for row, found in lost.items()
            if not found
        )
        own, first = lost[self.row], two.meaning["first"]
        verdict = UNDECIDED if own is None else HOLDS if own.high < self.bound else FAILS if own.low > self.bound else UNDECIDED
        label = f"{whole.label}; the first {first['share']:.0%} of the steps {first['batch']} at {first['length']}"
        return Finding(verdict, "two stages − one: " + "; ".join(filter(None, [said, alone])), label)


def _lost(whole: Scale, two: Scale, row: str) -> Difference | None:
    own, other = _losses(two, row), _losses(whole, row)
    shared = [seed for seed in own if seed in other]
    if len(shared) >= 2:
        return paired([own[seed] for seed in shared], [other[seed] for seed in shared])
    return independent(list(own.values()), list(other.values()))


def _losses(scale: Scale, row: str) -> dict[int, float]:
    return {seed: float(read_record(folder)["metrics"]["heldout_loss"]) for seed, folder in scale.folders[row].items()}


def _mean(losses: dict[int, float]) -> float:
    return sum(losses.values()) / len(losses)
