"""A list of runs on its way to a worker process: flat, each run once, inputs by identity."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relpos.files import write_text
from relpos.runs.run import Run


@dataclass(frozen=True)
class Job:
    """What a worker is given.

    Args:
        runs: inputs before what needs them.
        launched: time of the launch; a run that failed since then is not tried again.
    """

    runs: list[Run]
    launched: float

    def write(self, path: Path) -> None:
        """Writes the job as JSON."""
        keyed = [[run.identity, _flat(run)] for run in self.runs]
        write_text(path, json.dumps({"launched": self.launched, "runs": keyed}))

    @classmethod
    def read(cls, path: Path) -> Job:
        """The inverse of `write`."""
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        runs: dict[str, Run] = {}
        for identity, words in content["runs"]:
            runs[identity] = Run(**(words | {"inputs": {name: runs[other] for name, other in words["inputs"].items()}}))
        return cls(list(runs.values()), content["launched"])


class Standing:
    """How the runs of a job stand, as their folders say; what is settled is not read again."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.finished: set[str] = set()
        self.failed: set[str] = set()

    def is_finished(self, run: Run) -> bool:
        """Its record says so."""
        if run.identity not in self.finished and run.state == "finished":
            self.finished.add(run.identity)
        return run.identity in self.finished

    def has_failed(self, run: Run) -> bool:
        """It failed since the launch."""
        if run.identity not in self.failed and run.state == "failed" and _changed(run) >= self.job.launched:
            self.failed.add(run.identity)
        return run.identity in self.failed

    def is_ready(self, run: Run) -> bool:
        """Its inputs are finished."""
        return all(self.is_finished(other) for other in run.inputs.values())

    def open(self) -> list[Run]:
        """The runs that are not settled: neither finished, nor failed, nor waiting for one that failed."""
        hopeless: set[str] = set()
        result = []
        for run in self.job.runs:
            if self.is_finished(run):
                continue
            if self.has_failed(run) or any(other.identity in hopeless for other in run.inputs.values()):
                hopeless.add(run.identity)
            else:
                result.append(run)
        return result


def _flat(run: Run) -> dict[str, Any]:
    inputs = {name: other.identity for name, other in run.inputs.items()}
    return replace(run, inputs={}).to_dict() | {"inputs": inputs}


def _changed(run: Run) -> float:
    return (run.path / "record.json").stat().st_mtime
