"""What a run is: a stage, the meaning of its configuration and the identities of its inputs, and
the folder that follows from them.

Same identity, same run: nothing is trained twice, and the state of a table is read from the
folders.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self, get_type_hints

from relpos.config.schema import RunConfig, TrainingConfig
from relpos.errors import RelposError, refuse_unknown
from relpos.files import write_json
from relpos.places import runs_root  # which belongs to what a run is
from relpos.ranges import parsed
from relpos.readers import RECORD, Plain, digest, fitted, read_json, read_yaml, sealed, unsealed
from relpos.train.checkpoint_files import by_age

GIVEN = "given"
"""The stage of a network that the user named."""
SHAPES: dict[str, Any] = {
    "stage": str | None,
    "identity": str,
    "state": str,
    "meaning": dict,
    "metrics": dict | None,
    "starts": list[dict[str, Any]],
}
"""What the keys of a record are that every reader of it needs."""


class OfStage:
    """What has a stage: a run, a line about one, or a number of one."""

    stage: str

    @property
    def is_pretraining(self) -> bool:
        return self.stage == "pretrain"

    @property
    def is_tuning(self) -> bool:
        """Whether it is a fine-tuning, or of one."""
        return self.stage == "finetune"


@dataclass(frozen=True)
class Run(OfStage):
    """One node of the plan. A subclass with a `stage` is a stage from then on: its runs lie in the
    folder of that name. Planning, executing, recording and estimates of time know stages by what
    is here.

    Args:
        name: readable part of the folder's name.
        meaning: everything that can change the result, as plain values.
        config: what the stage is called with; more than its meaning (loggers, threads).
        inputs: the runs whose results it reads, under the names that the stage uses.
        folder: of a run that was not planned: of the stage `given`, the network that the user
            named; else see `Observed`.
    """

    name: str
    meaning: dict[str, Any]
    config: RunConfig
    inputs: dict[str, Run] = field(default_factory=dict)
    folder: str | None = None
    stage: str = field(default="", init=False)
    """Of the class, a word of the folder and of the identity."""

    version: ClassVar[int] = 0
    """Bumped when a change of code alters the results of the stage; the golden values of the tests
    make such a change visible."""
    shared: ClassVar[bool] = False
    """Whether its steps are divided among processes."""

    @classmethod
    def of(
        cls,
        name: str,
        meaning: dict[str, Any],
        values: Mapping[str, Any],
        inputs: dict[str, Run] | None = None,
        folder: str | None = None,
    ) -> Self:
        """The run whose configuration has these values: those of a plan or of a file. This is the
        one place where they are parsed.

        Raises:
            RelposError: a value is missing.
        """
        return cls(
            name,
            meaning,
            parsed(get_type_hints(cls)["config"], values),
            inputs or {},
            folder,
        )

    def __init_subclass__(cls) -> None:
        if isinstance(cls.stage, str) and cls.stage:
            STAGES[cls.stage] = cls

    @classmethod
    def plan(cls, content: Plain) -> Run:
        """The run that a checked configuration, with its interpolations, names.

        Raises:
            RelposError: no command makes a run of this stage alone; or a file that it needs is
                missing.
        """
        raise RelposError(
            "this configuration makes no run; those of data, pretrain and finetune make one"
        )

    def work(self) -> Plain:
        """Does the run in its folder, from its last checkpoint where there is one; returns its
        final figures."""
        raise RelposError(f"{self.name}: a run of stage {self.stage} is not made here")

    def figures(self) -> tuple[str, ...]:
        """The names of the final figures by which runs may be compared."""
        return ()

    def phases(self) -> list[tuple[float, float]]:
        """(tokens, operations for each) of the phases of a training; none for a stage that does not
        train."""
        return []

    def refuse_absent(self) -> None:
        """Refuses a run whose corpus, GLUE files or logger are missing, those of its inputs not
        included.

        Raises:
            RelposError: names the folder in which they were expected, or the package that the
                logger needs.
        """

    def refuse_impossible(self, is_here: bool) -> None:
        """Refuses a network that cannot be built, without memory for its weights.

        Args:
            is_here: whether this machine, and no other, is to execute the run.

        Raises:
            RelposError: size, position, convolution, length and `recipe.position_lr` do not go
                together, or `change` does not suit the positions; `speed.kernel` does not serve
                them; or there is no GPU here, and `speed` asks for one.
        """

    @property
    def is_given(self) -> bool:
        """Whether it is a folder that the user named, which nobody has to make."""
        return self.stage == GIVEN

    @cached_property
    def identity(self) -> str:
        """The run's identity, see `identity_of`."""
        inputs = {name: run.identity for name, run in self.inputs.items()}
        return identity_of(type(self), self.meaning, inputs)

    @cached_property
    def path(self) -> Path:
        """`$RELPOS_RUNS/<stage>/<name>-<identity>`; where there is a folder of this identity under
        another name, that one: the name is for the reader."""
        if self.folder:
            return Path(self.folder)
        own = runs_root() / self.stage / f"{self.name}-{self.identity}"
        if own.exists() or not own.parent.exists():
            return own
        # One list for all runs of a plan, which may be thousands.
        return _folders(own.parent, own.parent.stat().st_mtime_ns).get(self.identity, own)

    @property
    def network(self) -> Path:
        """The model folder of a training; of the stage `given`, what the user named: a model folder
        or a snapshot's file."""
        return self.path if self.is_given else self.path / "model"

    @property
    def beginning(self) -> Run:
        """The pre-training, or the given network, that a fine-tuning goes back to past its
        intermediate tasks; any other run itself."""
        return self.inputs["start"].beginning if self.is_tuning else self

    @property
    def record(self) -> Record:
        """The content of `record.json`; empty if the run was never started. What the user named is
        finished, and nobody reads its folder for a record."""
        if self.is_given:
            return Record(state="finished")
        return read_record(self.path)

    @property
    def state(self) -> str:
        """missing, running, interrupted, failed or finished, as the record says."""
        return self.record.state

    @property
    def metrics(self) -> dict[str, Any]:
        """The final metrics of a finished run."""
        return self.record.metrics

    @property
    def checkpoint(self) -> str | None:
        """Name of the newest checkpoint, or None. Each checkpoint has another name: a changed name
        means progress."""
        files = by_age(self.path / "checkpoint")
        return files[0].name if files else None

    def begin(self, **facts: Any) -> None:
        """Adds a start to the record: time, process, host and the checkpoint that it goes on
        from."""
        start = self._start() | {"checkpoint": self.checkpoint}
        self.update(state="running", starts=[*self.record.starts, start], **facts)

    def note_start(self, **facts: Any) -> None:
        """Adds facts to the newest start, such as training's step, processes and CPU threads."""
        *before, last = self.record["starts"]
        self.update(starts=[*before, last | facts])

    def end(self, state: str, **facts: Any) -> None:
        """Writes into the record how the newest start ended: finished, failed or interrupted.

        If there was no start yet, because an input is wrong for instance, one is added, so that the
        failure counts as a try.
        """
        record = self.record
        starts = record.starts
        # A start that was ended before must not be overwritten by the end of one that never was
        # noted.
        start = starts.pop() if record.state == "running" and starts else self._start()
        self.update(state=state, starts=[*starts, start | {"ended": state}], **facts)

    def _start(self) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return {"time": now, "pid": os.getpid(), "host": socket.gethostname()}

    def update(self, **changes: Any) -> None:
        """Writes `changes` into the record, atomically, and seals it where the run is finished."""
        record = Record(self.record | changes)
        write_json(self.path / RECORD, sealed(record) if record.state == "finished" else record)


class TrainingRun(Run):
    """A run that trains a network."""

    config: TrainingConfig

    def last_constant_step(self) -> int | None:
        """The step after which the rate falls; None if no other run can share the steps until
        then."""
        return None


@lru_cache(maxsize=8)
def _folders(stage: Path, changed: int) -> dict[str, Path]:
    """Identity → folder of the runs of a stage, as they are since the stage's folder `changed`."""
    return {folder.name.rpartition("-")[2]: folder for folder in stage.iterdir()}


def recorded(folder: Path) -> Run:
    """The run of a folder as its record describes it, whatever code and configuration made it.

    Raises:
        RelposError: record or configuration is damaged.
    """
    record = read_record(folder)
    config = read_yaml(folder / "config.yaml")
    for key in ("stage", "meaning"):
        if key not in record:
            raise RelposError(f"damaged record {folder / 'record.json'}: no {key}")
    place = folder.resolve()
    described = Description(
        record["stage"], place.name, record["meaning"], config, folder=str(place)
    )
    return described.observed(str(record.get("identity")), {})


STAGES: dict[str, type[Run]] = {}
"""Name of a stage, as records and folders have it → its class, once its file is loaded."""


def stage_class(stage: str) -> type[Run]:
    """The class of the stage of this name.

    Raises:
        RelposError: there is no such stage.
    """
    if stage not in STAGES:
        # by name, because what the stages do is on a higher floor
        files = import_module("relpos.stages").FILES
        refuse_unknown("unknown stage", stage, files)
        import_module(f"relpos.stages.{files[stage]}")
    return STAGES[stage]


def identity_of(stage: type[Run], meaning: dict[str, Any], inputs: dict[str, str]) -> str:
    """Twelve hexadecimal digits of the SHA-256 of stage, version, meaning and the identities of the
    inputs."""
    return digest([stage.stage, stage.version, meaning, inputs], 12)


@dataclass(frozen=True)
class Description:
    """What `dataclasses.asdict` makes of a run, for a file or another process."""

    stage: str
    name: str
    meaning: dict[str, Any]
    config: dict[str, Any]
    inputs: dict[str, Description] = field(default_factory=dict)
    folder: str | None = None

    def run(self) -> Run:
        """The run.

        Raises:
            RelposError: there is no such stage, or the configuration is damaged.
        """
        inputs = {name: needed.run() for name, needed in self.inputs.items()}
        return stage_class(self.stage).of(self.name, self.meaning, self.config, inputs, self.folder)

    def observed(self, identity: str, inputs: dict[str, Run]) -> Observed:
        """The run of this identity and these inputs, to be read and not done."""
        return Observed(
            self.name,
            self.meaning,
            parsed(RunConfig, self.config),
            inputs,
            self.folder,
            stage=self.stage,
            identity=identity,
            described=self,
        )


@dataclass(frozen=True)
class Observed(Run):
    """A run that is read and not done: of a record, or of a plan that another process executes. Its
    class, whose import takes seconds, is not loaded, and its configuration has only what may be
    asked of any run.

    Args:
        stage: as its file has it, which may be a stranger's.
        identity: whatever code has computed it.
        described: as its file has it.
    """

    stage: str = field(kw_only=True)
    identity: str = field(kw_only=True)
    described: Description = field(kw_only=True)

    def planned(self) -> Run:
        """The run as an object of its stage's class."""
        planned = {
            name: run.planned() for name, run in self.inputs.items() if isinstance(run, Observed)
        }
        return replace(self.described.run(), inputs=self.inputs | planned)

    def phases(self) -> list[tuple[float, float]]:
        return self.planned().phases()


def closure(runs: list[Run]) -> list[Run]:
    """Some runs and everything that they need: each once, inputs first."""
    collected: dict[str, Run] = {}

    def collect(runs: Iterable[Run]) -> None:
        for run in runs:
            # Visited once: a table's runs share tokenizer and store hundreds of times.
            if run.identity not in collected:
                collect(run.inputs.values())
                collected[run.identity] = run

    collect(runs)
    return list(collected.values())


def within_runs(path: Path) -> str:
    """A place as a record names it: relative to the runs folder where it is in there, so that runs
    folders may be merged."""
    root = runs_root()
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def input_of(folder: Path, name: str) -> Path:
    """Where the input of this name of the run in `folder` is, as its record says.

    Raises:
        KeyError: the run has no input of this name.
        RelposError: the record is damaged.
    """
    return placed(folder, str(read_record(folder)["inputs"][name]))


def placed(folder: Path, place: str) -> Path:
    """A place that the record of the run in `folder` names, see `within_runs`."""
    beside = folder.resolve().parent.parent / place
    # The folder may be a copy that somebody has put elsewhere.
    return beside if beside.exists() else runs_root() / place


class Record(Plain):
    """What the `record.json` of a run says; empty where the run was never started. Its readers ask
    by these names, so that a key which a record lacks has one answer."""

    @property
    def state(self) -> str:
        """missing, running, interrupted, failed or finished."""
        return str(self.get("state", "missing"))

    @property
    def meaning(self) -> Plain:
        return self.get("meaning") or {}

    @property
    def inputs(self) -> dict[str, str]:
        """Name of an input → its place, see `within_runs`."""
        return fitted(self.get("inputs") or {}, dict[str, str])

    @property
    def starts(self) -> list[Plain]:
        """What is known of each start, the newest one last."""
        return self.get("starts") or []

    @property
    def ends(self) -> list[str | None]:
        """How each start ended: finished, failed, interrupted or died; None where nobody knows
        yet."""
        return [start.get("ended") for start in self.starts]

    @property
    def hardware(self) -> Plain | None:
        return self.get("hardware")

    @property
    def metrics(self) -> Plain:
        """The final metrics."""
        return self.get("metrics") or {}

    @property
    def figures(self) -> dict[str, float]:
        """The numbers among the final metrics, and the columns, by their names; empty while the run
        is not finished."""
        values = self.metrics | self.columns
        return {name: value for name, value in values.items() if isinstance(value, int | float)}

    @property
    def columns(self) -> dict[str, float]:
        """Column → score, of a fine-tuning."""
        return self.metrics.get("columns", {})

    @property
    def error(self) -> str | None:
        """Why the newest start failed, where it did."""
        return self.get("error")

    @property
    def seconds(self) -> float:
        """How long the run has worked."""
        return float(self.get("seconds", 0.0))


def read_record(folder: Path) -> Record:
    """The `record.json` of a run's folder; empty where there is none.

    Raises:
        RelposError: it is damaged or cannot be read.
    """
    path = folder / RECORD
    try:
        record = Record(unsealed(read_json(path, dict, {}), str(path)))
        for key, shape in SHAPES.items():
            if key in record:
                fitted({key: record[key]}, dict[str, shape])  # type: ignore[valid-type]
    except RelposError as error:
        if isinstance(error.__cause__, OSError):
            raise RelposError(f"cannot read {error}") from error
        raise RelposError(
            f"damaged record {path}: delete the folder to start anew "
            f"({str(error).partition(': ')[2]})"
        ) from error
    return record
