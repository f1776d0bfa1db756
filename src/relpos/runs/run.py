"""What a run is: a stage, the meaning of its configuration and the identities of its inputs; and the folder that follows from them.

Same identity, same run: nothing is ever trained twice, and the state of a table is what the folders say.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from relpos.files import write_json

VERSIONS = {"toy": 1, "tokenizer": 1, "store": 1, "pretrain": 2, "finetune": 2}
"""Bumped when a change of code alters the results of a stage; the golden values of the tests make such a change visible."""


def runs_root() -> Path:
    """`$RELPOS_RUNS`, by default `./runs`."""
    return Path(os.environ.get("RELPOS_RUNS", "runs")).resolve()


@dataclass(frozen=True)
class Run:
    """One node of the plan.

    Args:
        stage: toy, tokenizer, store, pretrain, finetune; or `given`, a folder that the user named.
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
        """Twelve hexadecimal digits of the SHA-256 of stage, version, meaning and inputs."""
        inputs = {name: run.identity for name, run in self.inputs.items()}
        content = [self.stage, VERSIONS.get(self.stage, 0), self.meaning, inputs]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

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


def read_record(folder: Path) -> dict[str, Any]:
    """The `record.json` of a run's folder; empty where there is none."""
    try:
        return dict(json.loads((folder / "record.json").read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return {}
