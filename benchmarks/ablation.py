"""What each technique is worth: the pre-training step of BERT-small, 16 × 128 on CPU, with one of
them off at a time.

    python benchmarks/ablation.py [--repeats 9] [--threads N] [--rows 16]

All take turns in one process, ratios to the step with everything on are taken within a turn. That
freed memory is reused is a setting of the process, and on for all of them. Writes
benchmarks/results/ablation.json and .md, of which docs/performance.md speaks. Expect five minutes
on two quiet cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

sys.path.insert(0, str(Path(__file__).parent))
from _contestants import contestant, full_batch, size_of
from _report import machine, write_results
from step import race

from relpos.model import kernels
from relpos.model.dropout import Draw, Dropout
from relpos.model.kernels import sweeps

ALL = "everything on"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    times = race(contestants(asked.rows), asked.repeats)
    rows = []
    for name, seconds in times.items():
        ratios = [a / b for a, b in zip(seconds, times[ALL], strict=True)]
        cells = {
            "step": name,
            "seconds": f"{statistics.median(seconds):.3f}",
            "time over all on": f"{statistics.median(ratios):.3f}",
        }
        rows.append(cells | {"lowest – highest": f"{min(ratios):.2f} – {max(ratios):.2f}"})
    write_results(
        "ablation",
        {
            "machine": machine(),
            "rows of a batch": asked.rows,
            "repeats": asked.repeats,
            "rows": rows,
        },
    )
    for row in rows:
        print(row)


def contestants(rows: int) -> dict[str, Callable[[], Any]]:
    """Steps of `composite` in fp32. What is switched off is so during that step alone."""
    batch = [full_batch(rows)]
    name = "ours/composite{}/fp32"

    def made(overrides: str) -> Callable[..., Any]:
        return contestant(name.format(overrides))

    result: dict[str, Callable[[], Any]] = {ALL: partial(made(""), batch)}
    switches = {
        "attention in plain torch": (kernels, "FASTEST_FIRST", (kernels.fused, kernels.eager)),
        "add + norm, bias + GELU and loss in plain torch": (sweeps, "serve", lambda *_: False),
        "loss in plain torch": (sweeps, "serve", _not_for_the_loss),
    }
    for off, (where, what, instead) in switches.items():
        result[off] = _within(partial(patch.object, where, what, instead), made(""), batch)
    result["all in plain torch"] = partial(made(" kernel=fused"), batch)
    result["all by the definition"] = partial(made(" kernel=eager"), batch)
    result["no dropout"] = _within(
        partial(patch.object, Dropout, "draw", lambda *_: Draw(0.0, 0)), made(""), batch
    )
    return result


_serve = sweeps.serve


def _not_for_the_loss(name: str, x: torch.Tensor, training: bool) -> bool:
    # the loss reads the narrower embeddings
    return x.shape[-1] == size_of("small")["hidden"] and _serve(name, x, training)


def _within(scope: Callable[[], Any], step: Callable[..., Any], batch: Any) -> Callable[[], Any]:
    def once() -> None:
        with scope():
            step(batch)

    return once


if __name__ == "__main__":
    main()
