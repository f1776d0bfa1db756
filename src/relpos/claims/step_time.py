"""Claims about the time of a step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from relpos.claims.finding import FAILS, HOLDS, UNDECIDED, Finding
from relpos.claims.requirements import Requirements
from relpos.claims.scales import Scale, Scales
from relpos.runs.run import read_record


@dataclass(frozen=True)
class StepTime:
    """A step of `row` takes at most `times` as long as one of each row of `against`, on the same hardware with the same threads.

    A row's time is the median over the log lines of its runs, without the first line of each; if several machines ran both rows,
    the median of their ratios counts. The figures name the machines. Holds: every ratio is at most `times`. Fails: none is. Runs
    that shared a machine with others vary widely: benchmarks/ measures this better.
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

    @property
    def requires(self) -> Requirements:
        """One run of each row."""
        return Requirements()

    def findings(self, scales: Scales) -> list[Finding]:
        """One for each scale at which one machine has run `row` and another row."""
        return [finding for scale in scales if self.row in scale.folders and (finding := self.at(scale))]

    def at(self, scale: Scale) -> Finding | None:
        """The verdict at one scale; None if no machine has run `row` and another row."""
        times = _step_times(scale, self.row)
        ratios: dict[str, float] = {}
        machines: set[str] = set()
        for other in self.against:
            both = {machine: times[machine] / seconds for machine, seconds in _step_times(scale, other).items() if machine in times}
            if both:
                ratios[other] = median(both.values())
                machines |= set(both)
        if not ratios:
            return None
        slow = [name for name, ratio in ratios.items() if ratio > self.times]
        verdict = HOLDS if not slow else FAILS if len(slow) == len(ratios) else UNDECIDED
        said = ", ".join(f"{ratio:.2f} times {name}" for name, ratio in ratios.items())
        takes = "benchmarks/step.py on a machine that does nothing else" if verdict == UNDECIDED else ""
        return Finding(verdict, f"{self.row} takes {said}, on {' and '.join(sorted(machines))}", scale.label, takes=takes)


def _step_times(scale: Scale, row: str) -> dict[str, float]:
    """Machine and threads, as text → median seconds of a step, over the runs of a row."""
    times: dict[str, list[float]] = {}
    for folder in scale.folders.get(row, {}).values():
        record = read_record(folder)
        starts = record.get("starts") or [{}]
        machine = _machine(record.get("hardware"), starts[-1].get("threads"))
        text = (folder / "metrics.jsonl").read_text(encoding="utf-8") if (folder / "metrics.jsonl").exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("}\n")]
        rates = [line["steps_per_second"] for line in lines if line.get("steps_per_second")]
        times.setdefault(machine, []).extend(1 / rate for rate in rates[1:])
    return {machine: median(seconds) for machine, seconds in times.items() if seconds}


def _machine(hardware: dict[str, Any] | None, threads: int | None) -> str:
    known = hardware or {}
    parts = [*known.get("gpus", []), known.get("processor"), f"{known.get('cores', '?')} cores"]
    return ", ".join([*filter(None, parts), f"{threads or '?'} threads"])
