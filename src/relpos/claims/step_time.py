"""Claims about the time of a step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from relpos.claims.finding import FAILS, HOLDS, UNDECIDED, Finding
from relpos.claims.scales import Scale, Scales
from relpos.runs.run import read_record


@dataclass(frozen=True)
class StepTime:
    """A step of `row` takes at most `times` as long as one of each row of `against`, on the same hardware with the same threads.

    Of each run the median over its log lines but the first. Holds: so for every ratio. Fails: `row` is slower against all. Runs
    that shared a machine with others have wide spreads: benchmarks/ measures this better.
    """

    row: str
    against: Sequence[str]
    times: float = 1.5

    @property
    def says(self) -> str:
        return f"a step of {self.row} takes at most {self.times} times as long as one of {', '.join(self.against)}"

    @property
    def rows(self) -> tuple[str, ...]:
        return self.row, *self.against

    def findings(self, scales: Scales) -> list[Finding]:
        return [found for scale in scales if self.row in scale.folders and (found := self.at(scale))]

    def at(self, scale: Scale) -> Finding | None:
        """None where nothing was run under like conditions."""
        own = _step_times(scale, self.row)
        ratios = {}
        for other in self.against:
            for machine, seconds in _step_times(scale, other).items():
                if machine in own:
                    ratios[other] = own[machine] / seconds
        if not ratios:
            return None
        slow = [name for name, ratio in ratios.items() if ratio > self.times]
        verdict = HOLDS if not slow else FAILS if len(slow) == len(ratios) else UNDECIDED
        said = ", ".join(f"{ratio:.2f} times {name}" for name, ratio in ratios.items())
        return Finding(verdict, f"{self.row} takes {said}", scale.label)


def _step_times(scale: Scale, row: str) -> dict[str, float]:
    """Machine and threads → median seconds of a step, over the runs of a row."""
    found: dict[str, list[float]] = {}
    for folder in scale.folders.get(row, {}).values():
        record = read_record(folder)
        machine = json.dumps([record.get("hardware"), record["starts"][-1].get("threads")], sort_keys=True)
        text = (folder / "metrics.jsonl").read_text(encoding="utf-8") if (folder / "metrics.jsonl").exists() else ""
        rates = [one["steps_per_second"] for one in map(json.loads, text.splitlines()) if one.get("steps_per_second")]
        found.setdefault(machine, []).extend(1 / rate for rate in rates[1:])
    return {machine: median(seconds) for machine, seconds in found.items() if seconds}
