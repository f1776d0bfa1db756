"""How long runs take on this machine: as finished runs say, else by a rate that was measured here; else it is unknown.

A rate is in operations per second of one *device*: a GPU or, where there is none, one thread of the processor. The seconds of a
thread are those that it works, so that a rate does not depend on what else the machine does meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from statistics import median
from typing import Any

from relpos.errors import RelposError
from relpos.files import read_json, write_json
from relpos.places import make_runs_root
from relpos.runs.cost import ADAMW, Rate, flops, flops_done, flops_per_token, optimizer_of
from relpos.runs.execute import hardware
from relpos.runs.run import Run, runs_root
from relpos.runs.shelf import finished

RATES = "rates.json"
"""In `$RELPOS_RUNS`: the rates that were measured, each with the hardware."""
ALIKE = 2.0
"""A rate holds for runs whose operations per token, and tokens per step, differ by at most this factor: small models and small
steps reach a smaller share of a device's peak rate than large ones."""
BUSY = 0.1
"""Share of the processor from which on other processes are mentioned: what is started now takes longer than estimated."""


class Estimate:
    """How long runs take here.

    Args:
        measures: whether a rate is measured where none is known, which takes some seconds for each size of network.
    """

    def __init__(self, measures: bool = False) -> None:
        self.measures = measures
        self.known: dict[tuple[Any, ...], tuple[float | None, str]] = {}

    def seconds(self, run: Run) -> float | None:
        """Seconds of one device from a run's first step to its last; None: unknown; 0 for a stage that does not train."""
        operations = flops(run)
        if not operations:
            return 0.0
        rate, _ = self.rate(run)
        return operations / rate if rate else None

    def rate(self, run: Run) -> tuple[float | None, str]:
        """Operations per second as `relpos.runs.cost` counts them, None if it is unknown; and where it comes from."""
        task, data = run.config.get("task") or {}, run.config.get("data")
        # The data is part of the key: short sentences fill a step with fewer tokens.
        dials = run.config["precision"], run.config["batch"], optimizer_of(run.config["recipe"])
        key = run.stage, *dials, flops_per_token(run), task.get("name"), json.dumps(data)
        if key not in self.known:
            self.known[key] = self._rate(run)
        return self.known[key]

    def _rate(self, run: Run) -> tuple[float | None, str]:
        if rate := _median(run, self.finished[run.stage], flops_per_token(run)):
            return rate, "the rate of finished runs of the same size"
        operations, cost, tokens = flops_done(run)
        # By what is really done, unlike the rate of finished runs: a measurement reads no padding.
        rate = _median(run, self.measured, cost, tokens) or (self._measured_now(run) if self.measures else None)
        return (rate * flops(run) / operations, "a rate measured here") if rate else (None, "unknown")

    @cached_property
    def finished(self) -> dict[str, list[Rate]]:
        """The rates of the runs that this hardware has finished in one go, by stage."""
        return {stage: list(_of_records(stage)) for stage in ("pretrain", "finetune")}

    @cached_property
    def measured(self) -> list[Rate]:
        """What was measured on this hardware."""
        here = hardware()
        return [
            Rate(entry["precision"], entry["flops_per_token"], entry["rate"], entry.get("tokens"), None, entry["optimizer"])
            for entry in _kept()
            if entry["hardware"] == here
        ]

    def _measured_now(self, run: Run) -> float | None:
        # Only here, because it loads torch, and most plans have finished runs to go by.
        from relpos.runs.measurement import measured_rate

        try:
            rate = measured_rate(run)
        except RelposError:  # such as a network that cannot be read; who trains it is told
            return None
        # Also where it cannot be kept: the other rows of this plan are estimated with it.
        self.measured.append(rate)
        if runs_root().is_dir():  # a plan makes no folder
            with suppress(RelposError):  # nor is one that cannot be written to a reason not to estimate
                keep(rate)
        return rate.value


def _median(run: Run, rates: Iterable[Rate], cost: float, tokens: float = 0.0) -> float | None:
    """The median rate of runs alike, of the same task if there are such."""
    how = run.config["precision"], optimizer_of(run.config["recipe"])
    alike = [rate for rate in rates if (rate.precision, rate.optimizer) == how and _near(rate.cost, cost)]
    alike = [rate for rate in alike if rate.tokens is None or _near(rate.tokens, tokens)]
    task = (run.config.get("task") or {}).get("name")
    # Examples of one task are alike in length, so that their rate is the better guess.
    alike = [rate for rate in alike if rate.task == task] or alike
    return median(rate.value for rate in alike) if alike else None


def _near(value: float, other: float) -> bool:
    return other / ALIKE <= value <= other * ALIKE


def _of_records(stage: str) -> Iterable[Rate]:
    here = hardware()
    for _, record in finished(stage):
        starts = record.get("starts", [])
        if (
            # One start, from step 0: otherwise steps were lost, or taken over from another run, and the seconds do not fit.
            len(starts) != 1
            or starts[0].get("from_step")
            or not record.get("fit_seconds")
            or not record.get("flops")
            or record.get("hardware") != here
        ):
            continue
        devices, seconds = starts[0].get("processes", 1), record["fit_seconds"]
        if "gpus" not in here:
            # By the processor's own seconds, where those are fewer: the clock also counts waiting for other processes.
            threads = starts[0].get("threads", 1)
            devices *= threads
            seconds = min(seconds, record.get("fit_cpu_seconds", seconds * threads) / threads)
        meaning = record["meaning"]
        rate = record["flops"] / seconds / devices
        task, optimizer = meaning.get("task", {}).get("name"), optimizer_of(meaning.get("recipe", {}))
        yield Rate(meaning["precision"], record["flops_per_token"], rate, None, task, optimizer)


def keep(rate: Rate) -> None:
    """Adds a measured rate to those that plans read; it replaces one of the same kind.

    Raises:
        RelposError: the file cannot be written.
    """
    entry = {
        "hardware": hardware(),
        "precision": rate.precision,
        "optimizer": rate.optimizer,
        "flops_per_token": rate.cost,
        "tokens": rate.tokens,
    }
    # Measured anew on the same hardware, the newer one counts: drivers and torch change.
    others = [other for other in _kept() if any(other.get(key) != value for key, value in entry.items())]
    make_runs_root()
    write_json(runs_root() / RATES, [*others, entry | {"rate": rate.value}])


def _kept() -> list[dict[str, Any]]:
    """The entries of `RATES`; none if the file is damaged, because they can be measured again."""
    try:
        entries = read_json(runs_root() / RATES, list[dict[str, Any]])
        # The optimiser came later than the first files of rates.
        return [
            {"optimizer": ADAMW} | entry
            for entry in entries
            if {"hardware", "precision", "flops_per_token", "rate"} <= entry.keys()
        ]
    except RelposError:
        return []


def how_busy() -> str:
    """What else the processor does at the moment, as the end of a sentence about time; empty if that is little."""
    share = os.getloadavg()[0] / (os.cpu_count() or 1)
    return f"; the machine is {min(share, 1):.0%} busy now: what runs beside other work takes longer" if share >= BUSY else ""


def duration(hours: float | None) -> str:
    """Hours of a device, or minutes if there are few, in two digits.

    >>> duration(1934.5), duration(1.26), duration(0.04), duration(None)
    ('1,900 device-hours', '1.3 device-hours', '2.4 device-minutes', 'an unknown time')
    """
    if hours is None:
        return "an unknown time"
    amount, unit = (hours, "hours") if hours >= 0.1 else (hours * 60, "minutes")
    amount = float(f"{amount:.2g}")
    return f"{amount:,.0f} device-{unit}" if amount >= 10 else f"{amount:g} device-{unit}"
