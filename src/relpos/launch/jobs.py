"""A job: the runs that a worker executes one after another.

The file of a job has each run once, and the inputs of a run as identities. Inputs that only
finished runs read are in the file, which must describe every run, but not in the job.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from relpos.errors import RelposError
from relpos.files import write_text
from relpos.readers import Plain, read_json
from relpos.runs.cost import costs
from relpos.runs.lock import seen
from relpos.runs.retries import Retries
from relpos.runs.run import Description, Run, closure

PAUSE, LONGEST = 0.3, 10.0
"""Seconds of the shortest and of the longest `pause_after`."""
JOB = "job.json"
"""File in a launch's folder with its job."""
PLAN = "plan.json"
"""File beside a table with the job of its newest launch."""
LOGGERS = "RELPOS_LOGGERS"
"""Environment variable with the loggers of a job's runs as JSON, which the job's file refers to by
their places."""
WAITING = "waiting for a failed run"
"""State of a run that cannot be executed, because it needs a run that has failed."""
IMPOSSIBLE = "neither executed nor marked as failed"
"""State of a run that a worker gave up."""


@dataclass(frozen=True)
class Job:
    """The work of a worker.

    Args:
        runs: inputs before the runs that need them.
        retries: how often a run that fails is tried again.
        starts: identity → number of starts in the run's record before this launch; retries count
            from there.
        operations: identity → what a run needs that was not finished then, so that whoever watches
            need not count, which takes torch.
    """

    runs: list[Run]
    retries: int = 0
    starts: dict[str, int] = field(default_factory=dict)
    operations: dict[str, float] = field(default_factory=dict)

    @classmethod
    def now(cls, runs: list[Run], retries: int) -> Job:
        """The job of a launch that begins now: failures before it do not count."""
        job = cls(runs, retries)
        for run in runs:
            record = run.record
            job.starts[run.identity] = len(record.starts)
            if record.state != "finished":
                job.operations[run.identity] = costs(run)["flops"]
        return job

    def retries_of(self, run: Run) -> Retries:
        """The retries of a run in this launch."""
        return Retries(self.retries, self.starts.get(run.identity, 0))

    def write(self, path: Path) -> None:
        """Writes the job as JSON, and the settings of loggers into `LOGGERS`, which child processes
        inherit, so that no key is on disk."""
        of_job = {run.identity for run in self.runs}
        loggers: list[Plain] = []
        flat = []
        for run in closure(self.runs):
            content = asdict(replace(run, inputs={}))
            if logger := content["config"].get("logger"):
                if logger not in loggers:
                    loggers.append(logger)
                content["config"]["logger"] = loggers.index(logger)
            inputs = {name: needed.identity for name, needed in run.inputs.items()}
            flat.append([run.identity, content, inputs, run.identity in of_job])
        os.environ[LOGGERS] = json.dumps(loggers)
        write_text(path, json.dumps(vars(self) | {"runs": flat}))

    @classmethod
    def read(cls, path: Path, is_worker: bool = False) -> Job:
        """The inverse of `write`.

        Args:
            path: of the file.
            is_worker: whether the reader executes the runs, and so needs `LOGGERS`.
        """
        content: _JobFile = read_json(path, _JobFile)
        loggers = json.loads(os.getenv(LOGGERS, "[]"))
        described: dict[str, Run] = {}
        runs = []
        try:
            for identity, description, inputs, is_of_job in content.runs:
                config = description.config
                if is_worker and isinstance(number := config.get("logger"), int):
                    config["logger"] = loggers[number]
                needed = {name: described[of_input] for name, of_input in inputs.items()}
                observed = description.observed(identity, needed)
                run = observed.planned() if is_worker else observed
                described[identity] = run
                if is_of_job:
                    runs.append(run)
        except KeyError as error:
            raise RelposError(f"{path}: damaged: it lacks the run {error}") from error
        except IndexError as error:
            raise RelposError(
                f"{path}: {LOGGERS} in the environment does not say how its runs are logged"
            ) from error
        return cls(runs, content.retries, content.starts, content.operations)


@dataclass
class _JobFile:
    """The content of a job's file: for each run its identity, the run without inputs, name →
    identity of the inputs, and whether it is in the job."""

    runs: list[tuple[str, Description, dict[str, str], bool]]
    retries: int
    starts: dict[str, int]
    operations: dict[str, float]


class Standing:
    """The states of a job's runs, read from their folders. A settled run (finished, or out of
    retries) is not read again."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.unsettled = {run.identity: run for run in job.runs}
        self.states: dict[str, str] = {}
        """Identity → state as it was last read; `WAITING` if the run needs, at any depth, a run
        that has failed."""
        self.settled: list[Run] = []
        """Runs that are finished or out of retries, in the order in which that was read; without
        runs that wait for a failed one."""
        self.hopeless: set[str] = set()
        """Identities of the runs that will not be finished."""

    @property
    def starts(self) -> int:
        """The number of starts in all records."""
        return sum(len(run.record.starts) for run in self.job.runs)

    def in_state(self, state: str) -> list[Run]:
        """The runs in this state, as they were last read."""
        return [run for run in self.job.runs if self.states.get(run.identity) == state]

    def is_ready(self, run: Run) -> bool:
        """Whether the inputs of a run are finished."""
        # An input that is not in the job has no state here.
        return all(
            self.states.get(needed.identity) == "finished" or needed.state == "finished"
            for needed in run.inputs.values()
        )

    def walk(self) -> Iterator[Run]:
        """The runs that are neither settled nor hopeless; the record of each is read when its turn
        comes."""
        # A copy: settled runs are taken out.
        for run in list(self.unsettled.values()):
            record = run.record
            state = self.states[run.identity] = record.state
            if is_over := state == "failed" and self.job.retries_of(run).are_used_up(record):
                self.hopeless.add(run.identity)
            if is_over or state == "finished":
                self.settled.append(self.unsettled.pop(run.identity))
            elif any(needed.identity in self.hopeless for needed in run.inputs.values()):
                self.give_up(run, WAITING)
            else:
                yield run

    def open(self) -> list[Run]:
        """All runs that `walk` yields."""
        return [*self.walk()]

    def look(self) -> None:
        """Reads the states of all runs, as they are `seen`."""
        for run in self.walk():
            self.states[run.identity] = seen(self.states[run.identity], run.path)

    def give_up(self, run: Run, state: str) -> None:
        """Leaves out a run that will not be executed; nothing then waits for it or for runs that
        need it."""
        self.states[run.identity] = state
        self.hopeless.add(run.identity)
        self.unsettled.pop(run.identity, None)


def pause_after(seconds: float) -> float:
    """How long to sleep before reading the runs' folders again: five times the seconds of the last
    read, from PAUSE to LONGEST.

    So reading takes at most a sixth of the time, unless the disk is very slow.
    """
    return max(PAUSE, min(LONGEST, 5 * seconds))
