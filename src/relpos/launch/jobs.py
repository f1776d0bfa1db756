"""A job: the runs that a worker executes one after another.

On its way to the worker it is flat: each run once, inputs by identity.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from relpos.files import write_text
from relpos.runs.run import Run, closure


@dataclass(frozen=True)
class Job:
    """What a worker is given.

    Args:
        runs: inputs before what needs them.
        retries: how often a run that fails is tried again.
        failures: identity → how often it had failed before this launch, where it had.
        own: identities of the runs to execute; None: all.
    """

    runs: list[Run]
    retries: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    own: list[str] | None = None

    @classmethod
    def now(cls, runs: list[Run], retries: int) -> Job:
        """A job that forgives what happened before."""
        counts = {run.identity: len(run.record.get("failures", [])) for run in runs if run.stage != "given"}
        return cls(runs, retries, {identity: count for identity, count in counts.items() if count})

    def forgiven(self, run: Run) -> int:
        """With how many failures, those of before included, the run is still tried."""
        return self.retries + self.failures.get(run.identity, 0)

    def part(self, runs: list[Run]) -> Job:
        """Some of the runs to execute; everything that they need comes along."""
        return replace(self, runs=closure(runs), own=[run.identity for run in runs])

    def write(self, path: Path) -> None:
        """Writes the job as JSON."""
        keyed = [[run.identity, _flat(run)] for run in self.runs]
        write_text(path, json.dumps({"retries": self.retries, "failures": self.failures, "own": self.own, "runs": keyed}))

    @classmethod
    def read(cls, path: Path) -> Job:
        """The inverse of `write`."""
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        runs: dict[str, Run] = {}
        for identity, words in content["runs"]:
            runs[identity] = Run(**(words | {"inputs": {name: runs[other] for name, other in words["inputs"].items()}}))
        return cls(list(runs.values()), content["retries"], content["failures"], content["own"])


class Standing:
    """How the runs of a job stand, as their folders say. What is settled is not read again."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.unsettled = {run.identity: run for run in job.runs}
        self.finished: set[str] = set()
        self.failed: set[str] = set()
        self.hopeless: set[str] = set()
        self.impossible: set[str] = set()
        self.running: list[Run] = []

    def is_finished(self, run: Run) -> bool:
        """Its record says so."""
        return run.identity in self.finished or self._state(run) == "finished"

    def has_failed(self, run: Run) -> bool:
        """It has failed as often as the job allows."""
        return run.identity in self.failed

    def is_ready(self, run: Run) -> bool:
        """Its inputs are finished."""
        return all(self.is_finished(other) for other in run.inputs.values())

    def walk(self) -> Iterator[tuple[Run, str]]:
        """The runs that are neither settled nor waiting for one that failed, with their states, each read when its turn comes."""
        for run in list(self.unsettled.values()):
            state = self._state(run)
            if any(other.identity in self.failed or other.identity in self.hopeless for other in run.inputs.values()):
                self.hopeless.add(run.identity)
                self.unsettled.pop(run.identity, None)
            elif run.identity in self.unsettled:
                yield run, state

    def open(self) -> list[Run]:
        """All of them, and `running`: those that are under way."""
        found = list(self.walk())
        self.running = [run for run, state in found if state == "running"]
        return [run for run, _ in found]

    def set_aside(self, run: Run) -> None:
        """Of a run that can be neither executed nor marked as failed from here: nobody waits for it, or for what needs it."""
        self.impossible.add(run.identity)
        self.hopeless.add(run.identity)
        self.unsettled.pop(run.identity, None)

    def _state(self, run: Run) -> str:
        record = {} if run.stage == "given" else run.record
        state: str = "finished" if run.stage == "given" else record.get("state", "missing")
        if state == "finished":
            self.finished.add(run.identity)
        elif state == "failed" and len(record.get("failures", [])) > self.job.forgiven(run):
            self.failed.add(run.identity)
        else:
            return state
        self.unsettled.pop(run.identity, None)
        return state


def _flat(run: Run) -> dict[str, Any]:
    inputs = {name: other.identity for name, other in run.inputs.items()}
    return replace(run, inputs={}).to_dict() | {"inputs": inputs}
