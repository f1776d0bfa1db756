"""What a run is: a stage, the meaning of its configuration and the identities of its inputs; and the folder that follows from them.

Same identity, same run: nothing is ever trained twice, and the state of a table is what the folders say.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from relpos.errors import RelposError
from relpos.files import write_json

VERSIONS = {"noop": 1, "toy": 1, "tokenizer": 1, "store": 1, "pretrain": 2, "finetune": 2}
"""Bumped when a change of code alters the results of a stage; the golden values of the tests make such a change visible."""


def runs_root() -> Path:
    """`$RELPOS_RUNS`, by default `./runs`."""
    return _resolved(os.environ.get("RELPOS_RUNS", "runs"), os.getcwd())


@cache
def _resolved(folder: str, below: str) -> Path:
    return Path(below, folder).resolve()


def identity_of(stage: str, meaning: dict[str, Any], inputs: dict[str, str]) -> str:
    """Twelve hexadecimal digits of the SHA-256 of stage, version, meaning and the identities of the inputs."""
    content = [stage, VERSIONS.get(stage, 0), meaning, inputs]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Run:
    """One node of the plan.

    Args:
        stage: toy, tokenizer, store, pretrain, finetune, noop; or `given`, a folder that the user named.
        name: readable part of the folder's name.
        meaning: everything that can change the result, as plain values.
        config: what the stage is called with; more than its meaning (loggers, threads).
        inputs: the runs whose results it reads, by the name it knows them under.
        folder: only for `given`.
    """

    stage: str
    name: str
    meaning: dict[str, Any]
    config: dict[str, Any]
    inputs: dict[str, Run] = field(default_factory=dict)
    folder: str | None = None

    @cached_property
    def identity(self) -> str:
        """Of what it is and what it needs, see `identity_of`."""
        return identity_of(self.stage, self.meaning, {name: run.identity for name, run in self.inputs.items()})

    @property
    def path(self) -> Path:
        """`$RELPOS_RUNS/<stage>/<name>-<identity>`."""
        return Path(self.folder) if self.folder else runs_root() / self.stage / f"{self.name}-{self.identity}"

    @property
    def record(self) -> dict[str, Any]:
        """What became of it so far; empty where it was never started."""
        return read_record(self.path)

    @property
    def state(self) -> str:
        """missing, running, interrupted, failed or finished, as the record says."""
        return "finished" if self.stage == "given" else self.record.get("state", "missing")

    @property
    def metrics(self) -> dict[str, Any]:
        """The final metrics of a finished run."""
        return dict(self.record.get("metrics", {}))

    def started(self, **more: Any) -> None:
        """Adds to `starts`: time, process, host, the step it goes on from; training adds its processes and their CPU threads."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry = {"time": now, "pid": os.getpid(), "host": socket.gethostname(), "from_step": 0} | more
        self.update(starts=[*self.record.get("starts", []), entry])

    def fail(self, why: str, **more: Any) -> None:
        """Writes into the record that a try has failed; `failures` keeps the times, so that a launcher can count the tries."""
        self.update(state="failed", error=why, failures=[*self.record.get("failures", []), time.time()], **more)

    def update(self, **changes: Any) -> None:
        """Writes `changes` into the record, atomically."""
        write_json(self.path / "record.json", self.record | changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a plan on its way to a worker process."""
        inputs = {name: run.to_dict() for name, run in self.inputs.items()}
        return {key: getattr(self, key) for key in ("stage", "name", "meaning", "config", "folder")} | {"inputs": inputs}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Run:
        """The inverse of `to_dict`."""
        inputs = {name: cls.from_dict(run) for name, run in content["inputs"].items()}
        return cls(**(content | {"inputs": inputs}))


def closure(runs: list[Run]) -> list[Run]:
    """Some runs and everything that they need: each once, inputs first."""
    found: dict[str, Run] = {}

    def collect(run: Run) -> None:
        for other in run.inputs.values():
            if other.identity not in found:
                collect(other)
        found.setdefault(run.identity, run)

    for run in runs:
        collect(run)
    return list(found.values())


def read_record(folder: Path) -> dict[str, Any]:
    """The `record.json` of a run's folder; empty where there is none.

    Raises:
        RelposError: it is damaged or cannot be read.
    """
    try:
        return dict(json.loads((folder / "record.json").read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise RelposError(f"cannot read {folder / 'record.json'}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise RelposError(f"damaged record {folder / 'record.json'}: delete the folder to start anew") from error
