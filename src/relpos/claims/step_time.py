"""The rule about the time of a step."""

from __future__ import annotations

from statistics import median
from typing import Any

from relpos.claims.requirements import Requirements
from relpos.claims.rule import Place, Test, rule
from relpos.claims.scales import Scale
from relpos.claims.verdict import FAILS, HOLDS, UNDECIDED, Verdict
from relpos.runs.run import read_record
from relpos.runs.shelf import logged


@rule("a step of {row} takes at most {times} times as long as one of {others}", lambda test: Requirements())
def step_time(test: Test, place: Place, *, times: float = 1.5) -> Verdict | None:
    """A step of `row` takes at most `times` as long as one of each of the `others`, on the same hardware with the same threads.

    A row's time is the median over the log lines of its runs, without the first line of each; if several machines ran both rows,
    the median of their ratios counts. The figures name the machines. Holds: every ratio is at most `times`. Fails: none is. Runs
    that shared a machine with others vary widely: benchmarks/ measures this better.
    """
    ours = _seconds(place.scale, test.row)
    ratios: dict[str, float] = {}
    machines: set[str] = set()
    for other in test.others:
        both = {machine: ours[machine] / theirs for machine, theirs in _seconds(place.scale, other).items() if machine in ours}
        if both:
            ratios[other] = median(both.values())
            machines |= set(both)
    if not ratios:
        return None
    slow = sum(ratio > times for ratio in ratios.values())
    verdict = HOLDS if not slow else FAILS if slow == len(ratios) else UNDECIDED
    said = ", ".join(f"{ratio:.2f} times {name}" for name, ratio in ratios.items())
    takes = "benchmarks/step.py on a machine that does nothing else"
    return Verdict(verdict, f"{test.row} takes {said}, on {' and '.join(sorted(machines))}", takes=takes)


def _seconds(scale: Scale, row: str) -> dict[str, float]:
    """Machine and threads, as text → median seconds of a step, over the runs of a row."""
    times: dict[str, list[float]] = {}
    for folder in scale.folders.get(row, {}).values():
        record = read_record(folder)
        attempts = record.get("starts") or [{}]
        machine = _machine(record.get("hardware"), attempts[-1].get("threads"))
        rates = [line["steps_per_second"] for line in logged(folder) if line.get("steps_per_second")]
        times.setdefault(machine, []).extend(1 / rate for rate in rates[1:])
    return {machine: median(seconds) for machine, seconds in times.items() if seconds}


def _machine(hardware: dict[str, Any] | None, threads: int | None) -> str:
    known = hardware or {}
    parts = [*known.get("gpus", []), known.get("processor"), f"{known.get('cores', '?')} cores"]
    return ", ".join([*filter(None, parts), f"{threads or '?'} threads"])
