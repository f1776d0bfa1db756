"""Runs that train nothing, for tests of what stands around a run: launchers, locks, retries,
records.

`pretend` is a run of a stage of the tests. `trains` takes the place of the stage `pretrain`, for
tables of experiment files.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from relpos.config.compose import TRAININGS, composed, resolved
from relpos.config.schema import RunConfig
from relpos.errors import RelposError
from relpos.files import write_json
from relpos.readers import digest
from relpos.runs.retries import failures
from relpos.runs.run import Run, runs_root, stage_class

STAGE = "pretend"
METRICS = {"parameters": 1, "position_parameters": 0, "perplexity": 1.0, "heldout_loss": 0.0}


def pretend(label: str = "run", seed: int = 0, then: str = "finish", **inputs: Run) -> Run:
    """A run that takes no time.

    Args:
        label: with the seed, its name.
        seed: in its meaning, like the label.
        then: what becomes of it: finish, kill (its process) or exit (from Python).
        inputs: runs that it needs.
    """
    meaning = {"seed": seed, "label": label}
    values = meaning | {"then": then}
    return Pretend.of(f"{label}-seed{seed}", meaning, values, inputs)


@cache
def _defaults(stage: str) -> dict[str, Any]:
    """The configuration of a training without overrides."""
    return resolved(composed(stage)) if stage in TRAININGS else {"vocabulary": 1}


def bare(
    stage: str,
    name: str,
    meaning: dict[str, Any],
    config: dict[str, Any],
    inputs: dict[str, Run] | None = None,
    folder: str | None = None,
) -> Run:
    """A run that nobody has planned, with these values in place of the defaults."""
    values = _defaults(stage) | config
    return stage_class(stage).of(name, meaning, values, inputs, folder)


@dataclass(frozen=True, kw_only=True)
class PretendConfig(RunConfig):
    then: str = "finish"
    logger: Any = None


class Pretend(Run):
    config: PretendConfig
    stage, version = STAGE, 1

    def work(self) -> dict[str, Any]:
        if self.config.then == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.config.then == "exit":
            raise SystemExit(0)
        return {}


def working(stage: str, work: Callable[[Run], Any]) -> tuple[type[Run], str, Any]:
    """What `monkeypatch.setattr` takes to let `work` do the runs of a stage."""
    return stage_class(stage), "work", work


def trains(
    seconds: float = 0.0, fails: int = 0, row: str | None = None
) -> Callable[[Run], dict[str, Any]]:
    """The work of a stage that sleeps and returns the metrics of a pre-training; its first tries
    fail.

    Args:
        seconds: how long it sleeps.
        fails: so many tries of each run fail.
        row: of the table, whose runs fail; None: all.
    """

    def work(run: Run) -> dict[str, Any]:
        time.sleep(seconds)
        if failures(run.record) < fails and row in (None, run.config.row):
            raise RelposError("a failure on demand")
        return METRICS

    return work


def measured(network: Path, measure: str, results: dict[str, Any], **dials: object) -> Path:
    """The folder of a finished run that has measured the network of a run's folder; `share=` names
    a snapshot."""
    from relpos.stages.measure import VERSION

    meaning = {"measure": measure, "version": VERSION, **dials}
    folder = runs_root() / "order" / f"{measure}-{network.name}-{digest(meaning)}"
    write_json(folder / "results.json", results)
    record = {"stage": "order", "state": "finished", "meaning": meaning}
    write_json(folder / "record.json", record)
    return folder
