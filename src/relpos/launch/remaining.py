"""How long the runs of a table still take, from the runs that it has finished and from those under way.

Each stage has a speed of its own, in operations a second: short examples make a fine-tuning faster than its operations say.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from statistics import median
from typing import Any

from relpos.runs.cost import flops
from relpos.runs.run import Run


class Remaining:
    """What is known of speeds, from records and logs; nothing is measured."""

    def __init__(self) -> None:
        self.finished: dict[str, list[float]] = {}
        self.operations: dict[str, float] = {}
        self.places = 1
        """The most processes that were at work at once: between two runs a worker is not."""

    def add(self, run: Run, record: Mapping[str, Any]) -> None:
        """Takes the speed of a finished run."""
        seconds = record.get("seconds")
        if record.get("state") == "finished" and seconds and (operations := self._operations(run)):
            self.finished.setdefault(run.stage, []).append(operations / seconds)

    def seconds(self, unsettled: Iterable[Run], at_work: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]) -> float | None:
        """Seconds until all are done, by as many processes as were at work at once; None: no run has a speed yet.

        Args:
            unsettled: the runs to be done and those under way.
            at_work: identity of a run under way → its record and its newest log line.
        """
        self.places = max(self.places, len(at_work))
        runs, left = 0, dict[str, float]()
        speeds: dict[str, list[float]] = {}
        for run in unsettled:
            operations, done = self._operations(run), 0.0
            if operations and run.identity in at_work:
                record, line = at_work[run.identity]
                done = line.get("step", 0) / (run.config.get("steps") or line.get("step", 0) or 1)
                if done and (seconds := _since(record)):
                    speeds.setdefault(run.stage, []).append(operations * done / seconds)
            runs += operations > 0
            left[run.stage] = left.get(run.stage, 0.0) + operations * (1 - done)
        known = {stage: median(values) for stage, values in (speeds | self.finished).items()}
        if not known:
            return None
        # Of a stage of which none has begun, the others' speed is the best guess.
        any_speed = median(known.values())
        return sum(operations / known.get(stage, any_speed) for stage, operations in left.items()) / max(1, min(self.places, runs))

    def _operations(self, run: Run) -> float:
        if run.identity not in self.operations:  # asked several times a second, of all runs
            self.operations[run.identity] = flops(run)
        return self.operations[run.identity]


def _since(record: Mapping[str, Any]) -> float | None:
    """Seconds since the newest start of a run that began at its first step."""
    starts = record.get("starts") or [{}]
    if len(starts) != 1 or "time" not in starts[0] or starts[0].get("from_step"):
        return None
    return max(1.0, time.time() - datetime.fromisoformat(starts[0]["time"]).timestamp())


def clock(seconds: float) -> str:
    """`2:05`, `11:20:00`, or days.

    >>> clock(125), clock(40800), clock(400000)
    ('2:05', '11:20:00', '4.6 days')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
