"""Two processes against one on two cores: steps a second of BERT-small, batch 64, 128 tokens, one
CPU thread a process.

    python benchmarks/ddp.py [--steps 6] [--repeats 2]       writes benchmarks/results/ddp.{json,md}

Real runs through the front door, in turn, so that what else the machine does meets both. A figure
is the best of the steps after the first; the ratio of the medians stands beside.

    python benchmarks/ddp.py --exchange       writes benchmarks/results/ddp_exchange.{json,md}

What the exchange of gradients takes of such a step: of two processes that begin it together,
medians of eight, in seconds of the clock and of the processor. Forward and backward pass of 32 ×
128 tokens are what a process computes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from _contestants import full_batch, network
from _report import machine, write_results

from relpos.model.dropout import seed_dropout
from relpos.model.precision import autocast, casting_once
from relpos.runs.distributed import reserved_port
from relpos.train.group import join

OVERRIDES = [
    "size=small",
    "position=composite",
    "data=files",
    "packing=document",
    "batch=64",
    "speed.microbatch=16",
    "log_every=1",
]
BAR = 1.5


def write_corpus(folder: Path) -> None:
    """Documents long enough that every example has the full length."""
    chance = random.Random(0)
    lexicon = [
        "".join(chance.choices("abcdefghijklmnop", k=chance.randint(2, 9))) for _ in range(20_000)
    ]
    (folder / "corpus").mkdir(parents=True)
    for number in range(200):
        lines = (" ".join(chance.choices(lexicon, k=20)) + " ." for _ in range(60))
        (folder / "corpus" / f"{number:03}.txt").write_text(
            "\n".join(lines) + "\n", encoding="utf-8"
        )


def steps_per_second(folder: Path, processes: int, steps: int, seed: int) -> list[float]:
    """Of each step after the first."""
    overrides = [
        *OVERRIDES,
        f"steps={steps}",
        f"seed={seed}",
        "evaluations=1",
        "data.heldout=0.01",
        f"speed.devices={processes}",
    ]
    environment = os.environ | {
        "RELPOS_RUNS": str(folder / "runs"),
        "RELPOS_DATA": str(folder),
        "OMP_NUM_THREADS": "1",
    }
    command = [
        sys.executable,
        "-m",
        "relpos.cli",
        "pretrain",
        *overrides,
        "speed.threads=1",
        "vocabulary=16000",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    lines = (
        (Path(done.stdout.splitlines()[-1]) / "metrics.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    speeds = [json.loads(line) for line in lines]
    return [
        line["steps_per_second"]
        for line in speeds
        if line.get("steps_per_second") and line["step"] > 1
    ]


def measure_exchange(rank: int, port: int, folder: str, repeats: int = 8) -> None:
    """One of two processes; the first writes what it measured."""
    os.environ["MASTER_PORT"] = str(port)
    torch.set_num_threads(1)
    group = join(rank, 2, rank, "cpu")
    model = network("composite", "size=small", "vocabulary=16000").train()
    batch, figures = full_batch(), []
    batch = type(batch)(
        batch.input_ids % 16_000, batch.labels.where(batch.labels < 0, batch.labels % 16_000)
    )
    for precision in ("fp32", "bf16"):
        times: list[list[float]] = []
        for repeat in range(repeats + 1):
            model.zero_grad()
            dist.barrier()
            clocks = [(time.perf_counter(), time.process_time())]
            with casting_once(precision, torch.device("cpu")):
                for part in range(2):
                    seed_dropout(model, 2 * repeat + part)
                    with autocast(precision, "cpu"):
                        loss = model.loss_sum(batch.input_ids, batch.labels, None)[0] / 600
                    loss.backward()
            clocks.append((time.perf_counter(), time.process_time()))
            dist.barrier()
            clocks.append((time.perf_counter(), time.process_time()))
            group.sum_gradients(model)
            clocks.append((time.perf_counter(), time.process_time()))
            times.append([clocks[i + 1][j] - clocks[i][j] for i in (0, 2) for j in (0, 1)])
        passes, passes_cpu, exchange, exchange_cpu = (
            statistics.median(column) for column in zip(*times[1:], strict=True)
        )
        figures.append({
            "precision": precision,
            "megabytes": round(sum(p.numel() for p in model.parameters()) * 4 / 1e6, 1),
            "passes, s": round(passes, 3),
            "passes, CPU s": round(passes_cpu, 3),
            "exchange, s": round(exchange, 3),
            "exchange, CPU s": round(exchange_cpu, 3),
            "share": round(exchange / (passes + exchange), 3),
            "share, CPU": round(exchange_cpu / (passes_cpu + exchange_cpu), 3),
        })  # fmt: skip
    if group.first:
        Path(folder, "found.json").write_text(json.dumps(figures), encoding="utf-8")


def exchange_rows() -> list[dict[str, Any]]:
    """What `measure_exchange` finds, in two processes."""
    with tempfile.TemporaryDirectory() as folder, reserved_port() as port:
        mp.spawn(measure_exchange, (port, folder), nprocs=2)
        return list(json.loads(Path(folder, "found.json").read_text(encoding="utf-8")))


def main() -> int:
    """One process, two, one, two, …"""
    parser = argparse.ArgumentParser()
    parser.add_argument("--exchange", action="store_true")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    if given.exchange:
        write_results(
            "ddp_exchange",
            {"machine": machine(), "load": os.getloadavg()[0], "rows": exchange_rows()},
        )
        return 0
    speeds_of: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as name:
        write_corpus(Path(name))
        for repeat in range(given.repeats):
            for processes, seed in ((1, 2 * repeat), (2, 2 * repeat + 1)):
                speeds_of[processes] += steps_per_second(Path(name), processes, given.steps, seed)
                print(
                    processes, [round(speed, 4) for speed in speeds_of[processes]], file=sys.stderr
                )
    best = {processes: max(speeds) for processes, speeds in speeds_of.items()}
    middle = {processes: statistics.median(speeds) for processes, speeds in speeds_of.items()}
    rows = [
        {
            "processes": processes,
            "steps/s, best": round(best[processes], 4),
            "steps/s, median": round(middle[processes], 4),
            "times one process": round(best[processes] / best[1], 2),
            "by the medians": round(middle[processes] / middle[1], 2),
        }
        for processes in speeds_of
    ]
    write_results(
        "ddp", {"machine": machine(), "load": os.getloadavg()[0], "bar": BAR, "rows": rows}
    )
    return 0 if best[2] / best[1] >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
