"""A whole update of a small network on one thread, in turns with an earlier commit: python
benchmarks/update.py BASE [--repeats 9] [--updates 20] [--positions composite absolute]

The network has 4 layers of 128, an update 16 pairs of real text of $RELPOS_DATA/corpus (without it,
documents of the generated language), as in most experiments here. What is timed is all that a
training does: reading data, Lightning's loop, passes, clipping, AdamW, logging. It is processor
time, which hardly depends on what else the machine does; each repeat takes some updates of both
commits, and ratios are taken within it. Beside it stand the rates of large products: torch's, and
those of the compiled library. Writes benchmarks/results/update.json and .md. Expect ten minutes.

With `--gain 0.5` both commits take this processor for one that multiplies bfloat16 at half the rate
of float32, so that rounded factors are multiplied as float32; writes update_in_float32 instead.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from same import ROOT, checked_out  # type: ignore[import-not-found]

PRECISIONS = ("fp32", "bf16")
SIZE = ["size=mini", "size.hidden=128", "size.ffn=512", "batch=16", "vocabulary=8192"]
WARM = 2  # turns that do not count


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", nargs="?", default="HEAD~1")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--updates", type=int, default=20, help="in a turn")
    parser.add_argument("--positions", nargs="+", default=["composite", "absolute"])
    parser.add_argument("--gain", type=float, help="what bfloat16 is taken to gain")
    parser.add_argument("--worker", nargs=2, metavar=("PRECISION", "POSITION"))
    asked = parser.parse_args()
    if asked.worker:
        precision, position = asked.worker
        return work(precision, position, asked.updates, asked.gain)
    from _report import machine, write_results

    with checked_out(asked.base) as base:
        rows = [
            race(base, precision, position, asked.repeats, asked.updates, asked.gain)
            for precision in PRECISIONS
            for position in asked.positions
        ]
    about = machine() | {"load": round(os.getloadavg()[0], 1), "threads": 1, "base": asked.base}
    if asked.gain:
        about["gain"] = asked.gain
    name = "update_in_float32" if asked.gain else "update"
    write_results(name, {"machine": about, "repeats": asked.repeats, "rows": rows})


def race(
    base: Path, precision: str, position: str, repeats: int, updates: int, gain: float | None
) -> dict[str, Any]:
    """Both commits in turns; a row of the table."""
    workers = [start(tree, precision, position, updates, gain) for tree in (base, ROOT)]
    times: list[list[float]] = [[], []]
    for repeat in range(-WARM, repeats):
        order = (0, 1) if repeat % 2 else (1, 0)
        for number in order:
            seconds = turn(workers[number])
            if repeat >= 0:
                times[number].append(seconds / updates)
    operations = turn(workers[1], "operations")
    for worker in workers:
        worker.kill()
        worker.wait()
    ratios = [old / new for old, new in zip(*times, strict=True)]
    old, new = map(statistics.median, times)
    torchs, own = ceilings(precision)
    return {
        "precision": precision,
        "position": position,
        "ms an update, before": f"{1e3 * old:.1f}",
        "now": f"{1e3 * new:.1f}",
        "times as fast": f"{statistics.median(ratios):.2f}",
        "lowest – highest": f"{min(ratios):.2f} – {max(ratios):.2f}",
        "GFLOP an update": f"{operations / 1e9:.1f}",
        "GFLOP/s": f"{operations / new / 1e9:.0f}",
        "of torch's product": f"{torchs / 1e9:.0f}",
        "of the library's": f"{own / 1e9:.0f}",
    }


def start(
    tree: Path, precision: str, position: str, updates: int, gain: float | None
) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--worker", precision, position, "--updates", str(updates)]
    command += [] if gain is None else ["--gain", str(gain)]
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        env=environment,
        cwd=tree,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def turn(worker: subprocess.Popen[str], word: str = "go") -> float:
    """What a worker answers."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{word}\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def work(precision: str, position: str, updates: int, gain: float | None) -> None:
    """Trains; after some updates it says how much processor time they took and waits for the next
    word on standard input."""
    import pytorch_lightning as pl

    import relpos
    from relpos.model import kernels

    if gain:
        measured: Any = kernels
        measured.bf16_gain = lambda: gain
    corpus = Path(os.environ.get("RELPOS_DATA", ".")) / "corpus"
    text = (
        ["data=files", "data.sample=500000"]
        if corpus.is_dir()
        else ["data=toy", "packing=document", "length=80"]
    )
    overrides = [*SIZE, *text, f"precision={precision}", f"position={position}"]
    cfg = relpos.compose("pretrain", [*overrides, "steps=100000", "speed.threads=1"])
    module, data = relpos.lightning(cfg)

    class Turns(pl.Callback):
        """Speaks after every turn."""

        def __init__(self) -> None:
            self.began, self.tokens, self.done = 0.0, 0, 0

        def on_train_start(self, *_: Any) -> None:
            self.wait()

        def on_train_batch_end(
            self, trainer: Any, module: Any, outputs: Any, batch: Any, index: int
        ) -> None:
            self.tokens, self.done = self.tokens + batch.tokens, self.done + 1
            if self.done % updates == 0:
                print(time.process_time() - self.began, flush=True)
                self.wait()

        def wait(self) -> None:
            while sys.stdin.readline().strip() == "operations":
                progress: Any = module
                print(progress.operations * self.tokens / max(1, self.done), flush=True)
            self.began = time.process_time()

    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=100_000,
        logger=[],
        callbacks=[Turns()],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        num_sanity_val_steps=0,
    )
    trainer.fit(module, data)


def ceilings(precision: str) -> tuple[float, float]:
    """Operations a second of a product of matrices of 2,048 columns by torch, and of one of this
    network by the library."""
    import torch

    from relpos.model.kernels import sweeps_cpu

    torch.set_num_threads(1)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    x, large = (torch.randn(rows, rows, dtype=dtype) for rows in (512, 2048))
    return (
        rate(lambda: large @ large, 2 * 2048**3),
        rate(lambda: sweeps_cpu.product(x, x), 2 * 512**3),
    )


def rate(work: Callable[[], Any], operations: float) -> float:
    """Operations a second of processor time."""
    times = []
    for _ in range(8):
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    return operations / statistics.median(times[1:])


if __name__ == "__main__":
    main()
