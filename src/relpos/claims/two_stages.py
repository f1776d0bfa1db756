"""Claims about training on short text first and on longer text later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relpos.claims.effort import to_decide
from relpos.claims.finding import UNDECIDED, Evidence, Finding
from relpos.claims.requirements import SEVERAL, Requirements
from relpos.claims.scales import Scale, Scales
from relpos.runs.run import read_record
from relpos.tables.statistics import Difference, paired, welch


@dataclass(frozen=True)
class TwoStages:
    """Two stages lose less than `bound` in held-out loss at full length, compared with equally many steps at full length alone.

    All else is equal. Holds: the 95 % interval of the loss over pre-training seeds lies below `bound` for `row`. Fails: it lies
    above. What the `others` lose is shown and does not decide. With one seed of each the claim is undecided.
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

    @property
    def requires(self) -> Requirements:
        """Several pre-trainings of each kind."""
        return Requirements(SEVERAL)

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each pair of scales, with one stage and with two, that have `row`."""
        findings = []
        for group in scales.alike("first"):
            whole = next((scale for scale in group if "first" not in scale.meaning), None)
            staged = [scale for scale in group if "first" in scale.meaning and self.row in scale.folders]
            if whole is not None and self.row in whole.folders:
                findings += [self.at(whole, scale) for scale in staged]
        return findings

    def at(self, whole: Scale, staged: Scale) -> Finding:
        """The verdict for one pair of scales that have `row`."""
        having = [row for row in self.rows if row in whole.folders and row in staged.folders]
        lost = {row: _lost(whole, staged, row) for row in having}
        said = [f"{row} {tested.value:+.3f} [{tested.low:+.3f}, {tested.high:+.3f}]" for row, tested in lost.items() if tested]
        said += [
            f"{row} {_mean(_losses(staged, row)) - _mean(_losses(whole, row)):+.3f} (too few seeds)"
            for row, tested in lost.items()
            if not tested
        ]
        figures = f"two stages − one: {', '.join(said)}"
        first = staged.meaning["first"]
        label = f"{whole.label}; the first {first['share']:.0%} of the steps {first['batch']} at {first['length']}"
        tested = lost[self.row]
        if tested is None:
            return Finding(UNDECIDED, figures, label, takes=f"two pre-training seeds or more of {self.row}")
        p = tested.p_against(self.bound)
        below = tested.value < self.bound
        evidence = Evidence(p if below else 1.0, 1.0 if below else p)
        takes = to_decide(staged, [tested], self.bound) if evidence.verdict == UNDECIDED else ""
        return Finding(evidence.verdict, figures, label, evidence.p, takes)


def _lost(whole: Scale, staged: Scale, row: str) -> Difference | None:
    in_two, in_one = _losses(staged, row), _losses(whole, row)
    shared = [seed for seed in in_two if seed in in_one]
    if len(shared) >= 2:
        return paired([in_two[seed] for seed in shared], [in_one[seed] for seed in shared])
    return welch(list(in_two.values()), list(in_one.values()))


def _losses(scale: Scale, row: str) -> dict[int, float]:
    return {seed: float(read_record(folder)["metrics"]["heldout_loss"]) for seed, folder in scale.folders[row].items()}


def _mean(losses: dict[int, float]) -> float:
    return sum(losses.values()) / len(losses)
