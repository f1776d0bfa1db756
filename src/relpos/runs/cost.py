"""What a run costs: how many floating-point operations it needs, from its configuration alone, and
how long they take here.

Operations are an estimate: only matrix products are counted, and every sequence as if it had the
full length.

A run takes as long as its operations at a *rate*: that of the table's finished rows; before there
is one, that of a run under way, or the one which `relpos cost` measured on this hardware. A
*device* is a GPU or, where there is none, one thread of the processor. Time is that of the clock:
runs that shared the machine with other work say how long runs beside other work take.
"""

from __future__ import annotations

import os
import platform
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from relpos.errors import RelposError
from relpos.process import GPUS
from relpos.readers import Plain, read_json
from relpos.runs.run import Run, runs_root
from relpos.runs.shelf import newest

if TYPE_CHECKING:
    from relpos.model.architecture import Size

RATE = "rate.json"
"""In the runs folder: hardware, and operations per second of each device, as `relpos cost` measured
them last."""
CPUINFO = Path("/proc/cpuinfo")
VECTORS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""Sets of vector instructions, as Linux names them, the widest last."""


def forward(size: Size, length: int, vocabulary: int = 0, predicted: float = 0.0) -> float:
    """Operations of a forward pass, a token: 2 (4h² + 2hf) + 4nh a layer, the embedding's
    projection, the head at predicted tokens. A gated feed-forward network has 3hf in place of
    2hf."""
    hidden, embedding = size.hidden, size.embedding
    maps = 3 if size.glu else 2
    layer = 2 * (4 * hidden**2 + maps * hidden * size.ffn) + 4 * length * hidden
    head = predicted * 2 * (hidden * embedding + embedding * vocabulary) if vocabulary else 0.0
    projection = 2 * embedding * hidden * (embedding != hidden)
    return float(size.layers * layer + projection + head)


def costs(run: Run) -> dict[str, float]:
    """The operations of a run, and those for each token that it reads, as its record has them:
    three times the forward passes of a training; 0 for a stage that does not train."""
    phases = run.phases()
    operations = sum(tokens * cost for tokens, cost in phases)
    tokens = sum(tokens for tokens, _ in phases)
    return {"flops": operations, "flops_per_token": operations / tokens if tokens else 0.0}


def hardware() -> Plain:
    """Processor, cores, the widest vector instructions, on which the last digits of sums depend,
    and GPUs, if there are any."""
    about: dict[str, str] = defaultdict(str)
    # Elsewhere than on Linux there is no such file, and `platform` has to do.
    with suppress(OSError):
        text = CPUINFO.read_text(encoding="utf-8").partition("\n\n")[0]  # of the first core
        about |= re.findall(r"^(.*?)[ \t]*:[ \t]*(.*?)[ \t]*$", text, re.M)
    result: Plain = {
        "processor": about["model name"] or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
    }
    flags = about["flags"].split()
    for name in VECTORS:
        if name in flags:
            result["instructions"] = name
    for file in sorted(GPUS.glob("*/information")):
        text = file.read_text(encoding="utf-8")
        for model in re.findall(r"^Model:[ \t]*(.*?)[ \t]*$", text, re.M):
            result.setdefault("gpus", []).append(model)
    return result


class Estimate:
    """How long the runs of a table take. Whoever watches them adds those that have finished.

    Args:
        operations: identity → those of a run, where they are counted.
    """

    def __init__(self, operations: Mapping[str, float] | None = None) -> None:
        self.workers = 1
        """The most runs that were at work at once: between two runs a worker is not."""
        self.devices = 1
        """Devices of a worker."""
        self.finished: dict[str, tuple[float, float]] = {}
        """Stage → operations and device-seconds of its finished runs."""
        self.under_way: float | None = None
        """Operations per second of each device of a run under way."""
        self._operations = dict(operations or {})

    @cached_property
    def measured(self) -> float | None:
        """What `relpos cost` measured on this hardware."""
        with suppress(RelposError, KeyError):
            content = read_json(runs_root() / RATE, Plain)
            if content["hardware"] == hardware():
                return float(content["operations_per_second"])
        return None

    def add(self, record: Plain) -> None:
        """Takes the speed of a finished training, unless its seconds are not those of all its
        steps."""
        with suppress(KeyError, ValueError, TypeError, AttributeError):  # the record does not say
            (start,) = record["starts"]  # several: steps were lost or done twice
            # from_step: earlier steps were taken over from another run
            if start.get("from_step") or record["state"] != "finished":
                return
            operations, seconds = self.finished.get(record["stage"], (0.0, 0.0))
            seconds += record["fit_seconds"] * _devices(record)
            self.finished[record["stage"]] = operations + record["flops"], seconds

    def operations(self, run: Run) -> float:
        """What a run needs; 0 for a stage that does not train."""
        if run.identity not in self._operations:  # asked several times a second, of all runs
            self._operations[run.identity] = costs(run)["flops"]
        return self._operations[run.identity]

    def rate(self, stage: str) -> float | None:
        """Operations per second of each device; None: unknown. Where no run of the stage has
        finished, that of the other stages."""
        totals = [self.finished[stage]] if stage in self.finished else [*self.finished.values()]
        operations = sum(work for work, _ in totals)
        seconds = sum(time for _, time in totals)
        return operations / seconds if seconds else self.under_way or self.measured

    def seconds(self, runs: Iterable[Run]) -> float | None:
        """Device-seconds of some runs; None: unknown."""
        total = 0.0
        for run in runs:
            rate = self.rate(run.stage)
            if self.operations(run) and not rate:
                return None
            total += self.operations(run) / (rate or 1.0)
        return total

    def left(self, unsettled: Iterable[Run], at_work: Collection[Run]) -> str:
        """`about 2:05 left` by the clock, with as many workers as were at work at once; empty if
        nothing is known.

        Args:
            unsettled: the runs to be done and those under way.
            at_work: those under way.
        """
        self.workers = max(self.workers, len(at_work))
        runs = [run for run in unsettled if self.operations(run)]
        identities = {run.identity for run in at_work}
        own, others = 0.0, []
        for run in runs:
            record: Plain = {}
            line: Plain = {}
            if run.identity in identities:
                record, line = run.record, newest(run.path)
            if (seconds := left_of(run, line)) is None or "hardware" not in record:
                others.append(run)
                continue
            self.devices = _devices(record)
            own += seconds * self.devices
            self.under_way = (
                self.operations(run)
                * line["steps_per_second"]
                / (run.config.steps or 1)
                / self.devices
            )
        if (rest := self.seconds(others)) is None or not own + rest:
            return ""
        return f"about {clock((own + rest) / self.devices / max(1, min(self.workers, len(runs))))} left"


def left_of(run: Run, line: Plain) -> float | None:
    """Seconds that a run under way still takes at the speed of its newest log line; None if that
    has no speed."""
    steps, speed = run.config.steps, line.get("steps_per_second")
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


def _devices(record: Plain) -> int:
    """GPUs or threads of the newest start."""
    start = {"processes": 1, "threads": 1} | record["starts"][-1]
    return int(start["processes"] * (1 if "gpus" in record["hardware"] else start["threads"]))
