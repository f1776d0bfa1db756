"""What a run costs: how many floating-point operations it needs, from its configuration alone, and how long they take here.

Operations are an estimate: only matrix products are counted, and every sequence as if it had the full length.

A run takes as long on this hardware as finished runs like it did; where there are none, it is unknown. Runs are alike if they have
the same stage, precision, optimizer, length and kind of text or task, and about the same operations per token and examples per
step. A *device* is a GPU or, where there is none, one thread of the processor. Time is that of the clock: runs that shared the
machine with other work say how long runs beside other work take.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from statistics import median
from typing import Any

from relpos.runs.run import Run
from relpos.runs.shelf import finished

MASKED = 0.15
"""Share of the tokens that BERT's masks choose."""
FACTOR = 2.0
"""By how much the operations per token and the examples per step of runs that are alike may differ: small networks and small
steps reach a smaller part of a device's peak rate."""
ADAMW = "adamw"
"""The optimizer of a recipe that names none."""
CPUINFO = Path("/proc/cpuinfo")
WIDEST = ("amx_bf16", "avx512_bf16", "avx512f", "avx2")
"""Sets of vector instructions, as Linux names them, the widest first."""
GPUS = Path("/proc/driver/nvidia/gpus")
"""Where NVIDIA's driver lists the GPUs."""


def _parts(run: Run) -> list[tuple[float, float]]:
    """(tokens, operations for each) of the stages of a training run: one, or two where short text comes first."""
    if run.stage not in ("pretrain", "finetune"):
        return []
    from relpos.data.objective import trained_for  # loads torch, as the next
    from relpos.runs.networks import described_by

    origin = run
    while "start" in origin.inputs:  # the pre-training, or the network that the user named
        origin = origin.inputs["start"]
    size = described_by(origin)["size"] if origin.stage == "given" else origin.config["size"]
    vocabulary = run.inputs["tokenizer"].config["vocabulary"] if run.stage == "pretrain" else 0
    head = trained_for(run.config).expected
    steps, first = steps_of(run), run.config.get("first") or {"share": 0}
    stages = [(1 - first["share"], run.config), (first["share"], first)]
    return [
        # Three: the backward pass has two matrix products for each one of the forward pass.
        (share * steps * stage["batch"] * stage["length"], 3.0 * forward(size, stage["length"], vocabulary, head))
        for share, stage in stages
        if share
    ]


def forward(size: dict[str, Any], length: int, vocabulary: int = 0, predicted: float = MASKED) -> float:
    """Operations of a forward pass, a token: 2 (4h² + 2hf) + 4nh a layer, the embedding's projection, the head at predicted tokens.
    A gated feed-forward network has 3hf in place of 2hf."""
    hidden, embedding, maps = size["hidden"], size["embedding"], 3 if size.get("glu") else 2
    layer = 2 * (4 * hidden**2 + maps * hidden * size["ffn"]) + 4 * length * hidden
    head = predicted * 2 * (hidden * embedding + embedding * vocabulary) if vocabulary else 0.0
    return float(size["layers"] * layer + (2 * embedding * hidden if embedding != hidden else 0) + head)


def steps_of(run: Run) -> float:
    """Steps of a training run; where they are counted in epochs, those of the official rows."""
    if run.config.get("steps"):
        return float(run.config["steps"])
    task, batch = run.config["task"], run.config["batch"]
    epochs = run.config["recipe"].get("epochs") or task["steps"] / -(-task["rows"] // task["batch"])
    return float(epochs * -(-task["rows"] // batch))


def costs(run: Run) -> dict[str, float]:
    """The operations of a run, and those for each token that it reads, as its record has them: three times the forward passes of a
    training; 0 for a stage that does not train."""
    parts = _parts(run)
    operations, tokens = sum(tokens * cost for tokens, cost in parts), sum(tokens for tokens, _ in parts)
    return {"flops": operations, "flops_per_token": operations / tokens if tokens else 0.0}


def hardware() -> dict[str, Any]:
    """Processor, cores, the widest vector instructions, on which the last digits of sums depend, and GPUs, if there are any."""
    about: dict[str, str] = {}
    # Elsewhere than on Linux there is no such file, and `platform` has to do.
    with suppress(OSError):
        text = CPUINFO.read_text(encoding="utf-8").partition("\n\n")[0]  # of the first core
        about = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    processor = about.get("model name") or platform.processor() or platform.machine()
    result: dict[str, Any] = {"processor": processor, "cores": os.cpu_count()}
    flags = about.get("flags", "").split()
    result |= {"instructions": next(name for name in WIDEST if name in flags)} if set(WIDEST) & set(flags) else {}
    gpus = [
        line.partition(":")[2].strip()
        for file in sorted(GPUS.glob("*/information"))
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith("Model:")
    ]
    return result | {"gpus": gpus} if gpus else result


@dataclass(frozen=True)
class Kind:
    """What decides how fast a run is on given hardware, besides its position scheme.

    Args:
        same: what is equal for runs that are alike: stage, precision, optimizer, length, packing, kind of text, task.
        cost: operations per token.
        batch: examples per step.
    """

    same: tuple[Any, ...]
    cost: float
    batch: int

    def is_like(self, other: Kind) -> bool:
        """Whether the rate of such runs holds for the other ones, too."""
        pairs = (self.cost, other.cost), (self.batch, other.batch)
        return self.same == other.same and all(a <= FACTOR * b and b <= FACTOR * a for a, b in pairs)


@dataclass(frozen=True)
class Speed:
    """Operations per second of each device that a run has used."""

    kind: Kind
    hardware: Mapping[str, Any]
    rate: float


class Estimate:
    """Reads the finished runs once, when it is first asked. A launcher adds what it sees later."""

    def __init__(self) -> None:
        self.here: list[Mapping[str, Any]] = [hardware()]
        self.workers = 1
        """The most runs that were at work at once: between two runs a worker is not."""
        self.devices = 1
        """Of a worker."""
        self._known: dict[str, tuple[float, Kind | None]] = {}
        self._rates: dict[Kind, float | None] = {}

    @cached_property
    def speeds(self) -> dict[str, Speed]:
        """Identity → speed of a finished run, or of one under way."""
        records = [record for stage in ("pretrain", "finetune") for _, record in finished(stage)]
        return {record["identity"]: speed for record in records if (speed := _speed(record)) is not None}

    def seconds(self, run: Run) -> float | None:
        """Device-seconds of a training; 0 for a stage that does not train; None: unknown."""
        operations, kind = self._of(run)
        if kind is None:
            return 0.0
        if kind not in self._rates:
            known = [each.rate for each in self.speeds.values() if each.hardware in self.here and each.kind.is_like(kind)]
            self._rates[kind] = median(known) if known else None
        rate = self._rates[kind]
        return operations / rate if rate else None

    def total(self, runs: Iterable[Run]) -> tuple[float, int]:
        """Device-seconds of those runs whose time is known, and the number of the others."""
        each = [self.seconds(run) for run in runs]
        return sum(seconds for seconds in each if seconds is not None), each.count(None)

    def add(self, record: Mapping[str, Any]) -> None:
        """Takes the speed of a run that has finished meanwhile."""
        if record.get("state") == "finished" and (speed := _speed(record)) and self.speeds.get(record["identity"]) != speed:
            self._learn(record["identity"], speed)

    def left(self, unsettled: Iterable[Run], at_work: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str:
        """`about 2:05 left` by the clock, with as many workers as were at work at once; empty if nothing is known.

        Args:
            unsettled: the runs to be done and those under way.
            at_work: identity of a run under way → its record and its newest log line.
        """
        self.workers = max(self.workers, len(at_work))
        runs = [run for run in unsettled if self._of(run)[1]]
        own: dict[str, float] = {}  # a run under way has a speed of its own
        for run in runs:
            record, line = at_work.get(run.identity, ({}, {}))
            if record.get("hardware") and record["hardware"] not in self.here:  # of a cluster's nodes
                self.here.append(record["hardware"])
                self._rates.clear()
            if (seconds := left_of(run, line)) is not None and "hardware" in record:
                self.devices = _devices(record)
                own[run.identity] = seconds * self.devices
                operations, kind = self._of(run)
                assert kind is not None
                rate = operations * line["steps_per_second"] / run.config["steps"] / self.devices
                self._learn(run.identity, Speed(kind, record["hardware"], rate))
        known, unknown = self.total(run for run in runs if run.identity not in own)
        seconds = (known + sum(own.values())) / self.devices / max(1, min(self.workers, len(runs)))
        if not seconds:
            return ""
        return f"about {clock(seconds)} left" + (f", unknown for {unknown:,} of {len(runs):,} runs" if unknown else "")

    def _learn(self, identity: str, speed: Speed) -> None:
        self.speeds[identity] = speed
        self._rates.clear()

    def _of(self, run: Run) -> tuple[float, Kind | None]:
        """Its operations and its kind; (0, None) for a stage that does not train."""
        if run.identity not in self._known:  # asked several times a second, of all runs
            cost, inputs = costs(run), {name: needed.path for name, needed in run.inputs.items()}
            kind = _kind(run.stage, run.meaning, inputs, cost["flops_per_token"]) if cost["flops"] else None
            self._known[run.identity] = cost["flops"], kind
        return self._known[run.identity]


def left_of(run: Run, line: Mapping[str, Any]) -> float | None:
    """Seconds that a run under way still takes at the speed of its newest log line; None if that has no speed."""
    steps, speed = run.config.get("steps"), line.get("steps_per_second")
    return (steps - line.get("step", 0)) / speed if steps and speed else None


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


def duration(seconds: float) -> str:
    """Hours of a device, or minutes if there are few, in two digits.

    >>> duration(1934.5 * 3600), duration(1.26 * 3600), duration(0.04 * 3600)
    ('1,900 device-hours', '1.3 device-hours', '2.4 device-minutes')
    """
    amount, unit = (seconds / 3600, "hours") if seconds >= 360 else (seconds / 60, "minutes")
    amount = float(f"{amount:.2g}")
    return f"{amount:,.0f} device-{unit}" if amount >= 10 else f"{amount:g} device-{unit}"


def _speed(record: Mapping[str, Any]) -> Speed | None:
    """The speed of a finished training; None if the seconds are not those of all its steps, or the record does not say."""
    try:
        (start,) = record["starts"]  # several: steps were lost or done twice
        if start.get("from_step"):  # taken over from another run
            return None
        inputs = {name: PurePath(folder) for name, folder in record["inputs"].items()}
        kind = _kind(record["stage"], record["meaning"], inputs, record["flops_per_token"])
        return Speed(kind, record["hardware"], record["flops"] / record["fit_seconds"] / _devices(record))
    except (KeyError, ValueError, TypeError, AttributeError, ZeroDivisionError):  # the record lacks something
        return None


def _devices(record: Mapping[str, Any]) -> int:
    """GPUs or threads of the newest start."""
    start = record["starts"][-1]
    return int(start.get("processes", 1) * (1 if "gpus" in record["hardware"] else start.get("threads", 1)))


def _kind(stage: str, meaning: Mapping[str, Any], inputs: Mapping[str, PurePath], cost: float) -> Kind:
    task, recipe = meaning.get("task") or {}, meaning.get("recipe") or {}
    # Short sentences fill a step with fewer tokens: toy, files and hub are told apart by the names of their stores.
    text = "toy" if "toy" in inputs else inputs["store"].name.rpartition("-")[0] if "store" in inputs else ""
    dials = meaning["precision"], recipe.get("optimizer", ADAMW), meaning["length"], meaning.get("packing")
    return Kind((stage, *dials, text, task.get("name")), cost, meaning["batch"])
