"""Claims about time, about the test sets, and those that wait for something."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from relpos.runs.run import read_record, runs_root
from relpos.tables.claims.finding import FAILS, HOLDS, NOT_RUN, UNDECIDED, Finding
from relpos.tables.claims.scales import Scale, Scales
from relpos.tables.statistics import interval


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


@dataclass(frozen=True)
class DevAboveTest:
    """GLUE on the dev sets (mean over runs) lies above what the server answered, for the rows whose scores were recorded.

    Holds: the 95 % bootstrap interval of the mean difference over rows lies above zero; fails: below.
    """

    @property
    def says(self) -> str:
        return "dev means lie above the scores that `relpos record-scores` knows"

    @property
    def rows(self) -> tuple[str, ...]:
        return ()

    def findings(self, scales: Any) -> list[Finding]:
        found: dict[str, float] = {}
        for path in sorted((runs_root() / "tables").glob("*/table.json")):
            for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
                mean = row["mean"]
                if mean.get("test") is not None and mean.get("mean") is not None:
                    found[f"{path.parent.name} {row['name']}"] = mean["mean"] - mean["test"]
        if not found:
            return []
        ends = interval(list(found.values()))
        verdict = UNDECIDED if ends is None else HOLDS if ends[0] > 0 else FAILS if ends[1] < 0 else UNDECIDED
        said = ", ".join(f"{name} {value:+.1f}" for name, value in found.items())
        return [Finding(verdict, f"dev − test: {said}", "rows with recorded scores")]


@dataclass(frozen=True)
class Waits:
    """A claim that nothing here can test yet.

    Args:
        needs: what is missing.
        rows: whose runs it will need.
        rule: how it will be tested.
    """

    needs: str
    rule: str
    rows: Sequence[str] = ()

    @property
    def says(self) -> str:
        return self.rule

    def findings(self, scales: Any) -> list[Finding]:
        return [Finding(NOT_RUN, f"needs {self.needs}", "—")]
