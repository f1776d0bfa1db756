"""The rule about the time of a step."""

from __future__ import annotations

from statistics import median
from typing import Any

from relpos.claims.rule import Requirements, Test, rule
from relpos.claims.verdict import FAILS, HOLDS, UNDECIDED, Verdict
from relpos.results.scale import Scale
from relpos.runs.run import read_record
from relpos.runs.shelf import logged

Machine = tuple[str, bool]
"""Hardware and threads of a run, as text, and whether there is a GPU among them."""


@rule("a step of {row} takes at most {times} times as long as one of {others}", lambda test: Requirements())
def step_time(test: Test, scale: Scale, *, times: float = 1.5) -> Verdict | None:
    """A step of `row` takes at most `times` as long as one of each of the `others`, on the same hardware with the same threads.

    A row's time is the median over the log lines of its runs, without the first line of each; if several machines ran both rows,
    the median of their ratios counts. The figures name the machines. Holds: every ratio is at most `times`. Fails: none is. Only
    GPUs decide: what keeps the threads of a CPU busy says nothing of how well a scheme runs in parallel.
    """
    ours = _seconds(scale, test.row)
    ratios: dict[str, float] = {}
    machines: set[Machine] = set()
    for other in test.others:
        both = {machine: ours[machine] / theirs for machine, theirs in _seconds(scale, other).items() if machine in ours}
        if both:
            ratios[other] = median(both.values())
            machines |= set(both)
    if not ratios:
        return None
    slow = sum(ratio > times for ratio in ratios.values())
    decided = HOLDS if not slow else FAILS if slow == len(ratios) else UNDECIDED
    verdict = decided if all(is_gpu for _, is_gpu in machines) else UNDECIDED
    said = ", ".join(f"{ratio:.2f} times {name}" for name, ratio in ratios.items())
    figures = f"{test.row} takes {said}, on {' and '.join(sorted(name for name, _ in machines))}"
    return Verdict(verdict, figures, takes="runs on a GPU that does nothing else")


def _seconds(scale: Scale, row: str) -> dict[Machine, float]:
    """Median seconds of a step on each machine, over the runs of a row."""
    times: dict[Machine, list[float]] = {}
    for folder in scale.folders.get(row, {}).values():
        record = read_record(folder)
        attempts = record.get("starts") or [{}]
        machine = _machine(record.get("hardware"), attempts[-1].get("threads"))
        rates = [line["steps_per_second"] for line in logged(folder) if line.get("steps_per_second")]
        # Without the first line of a log, in which memory is allocated and kernels are compiled.
        times.setdefault(machine, []).extend(1 / rate for rate in rates[1:])
    return {machine: median(seconds) for machine, seconds in times.items() if seconds}


def _machine(hardware: dict[str, Any] | None, threads: int | None) -> Machine:
    known = hardware or {}
    gpus = known.get("gpus", [])
    parts = [*gpus, known.get("processor"), f"{known.get('cores', '?')} cores"]
    return ", ".join([*filter(None, parts), f"{threads or '?'} threads"]), bool(gpus)
