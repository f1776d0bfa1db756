"""How many floating-point operations a run needs, from its configuration alone, and how many a second this machine does.

An estimate: only matrix products are counted, and every sequence as if it had the full length. Rates are measured with the same
counts, so that both errors cancel in a run's estimated time.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from relpos.errors import RelposError
from relpos.runs.run import Run, read_record

RATES = "rates.json"
"""In `$RELPOS_RUNS`: the rates that `relpos cost` has measured."""
MEASUREMENT = "measured"
"""Takes the place of a run's stage for those rates."""
MASKED = 0.15
"""Share of tokens at which the head of the masked language model computes logits."""
REACHED = 0.4
"""Share of the rate of a bare matrix product that training reaches, where no run has been measured."""
MOST_RECORDS = 300
"""Records of each stage that are read for rates, at most, so that a plan stays quick."""
GPUS = Path("/proc/driver/nvidia/gpus")
"""Where NVIDIA's driver lists the GPUs."""
ALIKE = 2.0
"""A rate holds for runs whose operations a token differ from the measured run's by at most this factor: small models reach a
smaller share of a device's peak rate than large ones."""


def flops(run: Run) -> float:
    """Operations of a training run: three times its forward passes; 0 for a stage that does not train."""
    return sum(tokens * cost for tokens, cost in _parts(run))


def flops_per_token(run: Run) -> float:
    """Operations of a training run for each token that it reads; 0 for a stage that does not train."""
    tokens = sum(tokens for tokens, _ in _parts(run))
    return flops(run) / tokens if tokens else 0.0


def _parts(run: Run) -> list[tuple[float, float]]:
    """(tokens, operations for each) of the stages of a training run: one, or two where short text comes first."""
    start = run
    while "start" in start.inputs:
        start = start.inputs["start"]
    size = start.meaning.get("size")
    if start.stage == "given" and run.stage == "finetune":
        from relpos.runs.plan import network_settings  # reads the checkpoint's configuration with torch, which no plan needs

        size = network_settings(start)["size"]
    if size is None or run.stage not in ("pretrain", "finetune"):
        return []
    vocabulary = start.inputs["tokenizer"].config["vocabulary"] if run.stage == "pretrain" else 0
    steps, first = steps_of(run), run.config.get("first") or {"share": 0}
    stages = [(1 - first["share"], run.config), (first["share"], first)]
    return [
        (share * steps * stage["batch"] * stage["length"], 3.0 * forward(size, stage["length"], vocabulary))
        for share, stage in stages
        if share
    ]


def forward(size: dict[str, Any], length: int, vocabulary: int = 0) -> float:
    """Operations of a forward pass, a token: 2 (4h² + 2hf) + 4nh a layer, the embedding's projection, the head at masked tokens."""
    hidden, embedding = size["hidden"], size["embedding"]
    layer = 2 * (4 * hidden**2 + 2 * hidden * size["ffn"]) + 4 * length * hidden
    head = MASKED * 2 * (hidden * embedding + embedding * vocabulary) if vocabulary else 0.0
    return float(size["layers"] * layer + (2 * embedding * hidden if embedding != hidden else 0) + head)


def steps_of(run: Run) -> float:
    """Steps of a training run; where they are counted in epochs, those of the official rows."""
    if run.config.get("steps"):
        return float(run.config["steps"])
    task, batch = run.config["task"], run.config["batch"]
    epochs = run.config["recipe"].get("epochs") or task["steps"] / -(-task["rows"] // task["batch"])
    return float(epochs * -(-task["rows"] // batch))


@dataclass(frozen=True)
class Rates:
    """Operations a second and device on this hardware: of runs finished in one go, and as `relpos cost` measured them."""

    measured: list[tuple[str, str, float, float]]  # stage, precision, operations a token, operations a second

    def tried(self, run: Run) -> float | None:
        """The rate that `relpos cost` measured for about the same size; None where it has measured none."""
        return self._median(MEASUREMENT, run)

    def of(self, run: Run) -> float | None:
        """The median over runs of the same stage and precision and of about the same size; None where there is none."""
        return self._median(run.stage, run)

    def _median(self, source: str, run: Run) -> float | None:
        cost_of_run = flops_per_token(run)
        alike = [
            rate
            for stage, precision, cost, rate in self.measured
            if (stage, precision) == (source, run.config["precision"]) and cost_of_run / ALIKE <= cost <= cost_of_run * ALIKE
        ]
        return median(alike) if alike else None


def measured(runs: Iterable[Run], folder: Path, hardware: dict[str, Any]) -> Rates:
    """The rates of the runs that this hardware has finished in one go.

    Args:
        runs: those of a plan.
        folder: `$RELPOS_RUNS`; finished runs of other plans in it count too.
        hardware: of this machine, as it stands in records.
    """
    rates = []
    for stage, record in _records(runs, folder):
        starts = record.get("starts", [])
        if len(starts) == 1 and record.get("fit_seconds") and record.get("hardware") == hardware:
            rate = record["flops"] / record["fit_seconds"] / starts[0].get("processes", 1)
            rates.append((stage, record["meaning"]["precision"], record["flops_per_token"], rate))
    return Rates(rates + _measurements(folder, hardware))


def _measurements(folder: Path, hardware: dict[str, Any]) -> list[tuple[str, str, float, float]]:
    """What `relpos cost` has measured on this hardware; nothing if the file is damaged."""
    try:
        entries = json.loads((folder / RATES).read_text("utf-8"))
        return [
            (MEASUREMENT, entry["precision"], entry["flops_per_token"], entry["rate"])
            for entry in entries
            if entry["hardware"] == hardware
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _records(runs: Iterable[Run], folder: Path) -> Iterable[tuple[str, dict[str, Any]]]:
    of_plan = set()
    for run in runs:
        if run.stage in ("pretrain", "finetune") and (record := run.record).get("state") == "finished":
            of_plan.add(run.path)
            yield run.stage, record | costs(run)
    for stage in ("pretrain", "finetune"):
        for path in sorted((folder / stage).glob("*/record.json"))[:MOST_RECORDS]:
            try:
                record = read_record(path.parent)
            except RelposError:  # a damaged record of another plan's run is not this plan's problem
                continue
            if path.parent not in of_plan and record.get("state") == "finished" and record.get("flops_per_token"):
                yield stage, record


def costs(run: Run) -> dict[str, float]:
    """The operations of a run, as its record has them."""
    return {"flops": flops(run), "flops_per_token": flops_per_token(run)}


def matrix_product() -> float:
    """Operations a second of a float32 matrix product, on the GPU where there is one.

    The shortest of several short ones counts, so that it matters little what else the machine does.
    """
    n = 512
    a: Any
    if "torch" in sys.modules or GPUS.is_dir():
        import torch

        device, n = ("cuda", 8192) if torch.cuda.is_available() else ("cpu", n)
        a = torch.rand(n, n, device=device)
    else:  # to import torch would take longer than the product, which is as fast without it
        import numpy as np

        a = np.random.default_rng(0).random((n, n), np.float32)
    shortest = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        float((a @ a)[0, 0])
        shortest = min(shortest, time.perf_counter() - start)
    return 2.0 * n**3 / shortest
