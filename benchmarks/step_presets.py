"""The whole pre-training step of BERT-small or BERT-base, 16 × 128 on CPU: every position scheme
and convolution over `none`.

    python benchmarks/step_presets.py [--size small|base] [--repeats 5] [--threads N] [--precision
    fp32|bf16]

A step is forward, backward, clipping and AdamW. Five presets at a time take turns with `none`;
ratios are taken within a turn, so that what else the machine does hits both sides, and the median
of them counts. A scheme that solves in one update of `refresh` is charged its share of that. Peak
memory is that of processes of their own. Writes benchmarks/results/step_presets.json and .md, from
which docs/mechanisms.md takes its columns (`make mechanisms`). Expect seven minutes on two quiet
cores.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from _contestants import contestant, full_batch
from _presets import NONE, Work, peaks, presets, race_presets, report_peaks, with_memory, write
from step import machine, race

ROWS, LENGTH = 16, 128


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--size", choices=("small", "base"), default="small")
    parser.add_argument("--together", type=int, default=5, help="presets that take turns with none")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument(
        "--rows", type=int, default=ROWS, help="sequences of a batch; for trying the script out"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="these presets, such as position=tisa; the rows of the others stay as they are",
    )
    parser.add_argument("--memory", nargs="+", metavar="NAME", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    make = partial(work, precision=asked.precision, rows=asked.rows, size=asked.size)
    if asked.memory:
        return report_peaks(asked.memory, make, asked.threads)
    torch.set_num_threads(asked.threads)
    names = asked.only or presets()
    rows = race_presets(make, race, names, asked.repeats, asked.together)
    arguments = [
        __file__,
        "--precision",
        asked.precision,
        "--rows",
        str(asked.rows),
        "--size",
        asked.size,
    ]
    rows = with_memory(rows, peaks(arguments, [NONE, *names], asked.threads))
    title = f"The pre-training step of BERT-{asked.size}, {asked.rows} × {LENGTH}, {asked.precision}, over that of `none`"
    settings = {
        "precision": asked.precision,
        "batch": asked.rows,
        "length": LENGTH,
        "repeats": asked.repeats,
    }
    write(
        "step_presets" if asked.size == "small" else f"step_presets_{asked.size}",
        title,
        {"machine": machine(asked.threads), **settings, "presets": rows},
        keep=bool(asked.only),
    )


def work(name: str, precision: str, rows: int, size: str) -> Work:
    """One step on random tokens."""
    return partial(contestant(f"ours/{name} size={size}/{precision}"), [full_batch(rows, LENGTH)])


if __name__ == "__main__":
    main()
