"""What a training step costs here: some passes and updates of a network on made-up tokens, measured.

A measurement is kept in `$RELPOS_RUNS/rates.json`, where plans find it: they estimate with the same rates.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from relpos.counter import fold
from relpos.files import write_json
from relpos.model.dropout import seed_dropout
from relpos.model.heads import MaskedLM
from relpos.model.precision import autocast
from relpos.runs.cost import MASKED, RATES
from relpos.train.room import fitting_microbatch


@dataclass(frozen=True)
class Measured:
    """Seconds of an update; the examples of a pass; the largest memory of the process (of the GPU, where there is one) in bytes."""

    step: float
    microbatch: int
    memory: int
    device: str


def measure(model: MaskedLM, batch: int, length: int, precision: str, speed: dict[str, Any], seconds: float) -> Measured:
    """Measures passes for about `seconds`, at least two, and two updates; the first of each does not count.

    All examples are taken to be `length` tokens long. The device is a GPU where there is one and `speed.accelerator` allows it.
    """
    device = torch.device("cuda" if torch.cuda.is_available() and speed["accelerator"] != "cpu" else "cpu")
    model = model.to(device).train()
    asked = speed["microbatch"]
    microbatch = min(batch, fitting_microbatch(model.encoder, length, speed["accelerator"]) if asked == "auto" else int(asked))
    generator = torch.Generator().manual_seed(0)
    vocabulary = model.encoder.embedding.words.num_embeddings
    ids = torch.randint(min(5, vocabulary - 1), vocabulary, (microbatch, length), generator=generator)
    labels = ids.masked_fill(torch.rand(ids.shape, generator=generator) >= MASKED, -100).to(device)
    ids = ids.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)

    def forward_and_backward(number: int) -> None:
        seed_dropout(model, fold(0, number))
        with autocast(precision, device):
            loss = model.loss(ids, labels)
        loss.backward()

    def update(_: int) -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    model.encoder.position.begin_step(0)
    passes = _times(forward_and_backward, seconds, device)
    updates = _times(update, 0.0, device)
    step = -(-batch // microbatch) * median(passes[1:]) + median(updates[1:])
    return Measured(step, microbatch, _peak(device), _name(device))


def _times(work: Any, seconds: float, device: torch.device) -> list[float]:
    times: list[float] = []
    while len(times) < 2 or sum(times) < seconds:
        start = time.perf_counter()
        work(len(times))
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return times


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"


def keep(folder: Path, hardware: dict[str, Any], precision: str, flops_per_token: float, rate: float) -> None:
    """Adds a measured rate, in operations a second, to those that plans read; it replaces one of the same kind."""
    path = folder / RATES
    entry = {"hardware": hardware, "precision": precision, "flops_per_token": flops_per_token, "rate": rate}
    kind = ("hardware", "precision", "flops_per_token")
    entries = json.loads(path.read_text("utf-8")) if path.exists() else []
    others = [other for other in entries if any(other[key] != entry[key] for key in kind)]
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, [*others, entry])
