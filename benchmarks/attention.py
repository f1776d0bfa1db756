"""Attention alone, forward and backward, 32 × 128 tokens, 4 heads of 64, on CPU: every position
scheme and convolution over `none`.

    python benchmarks/attention.py [--repeats 9] [--threads N] [--precision fp32|bf16]

What is timed: one layer's projections, scores, softmax with dropout, values and W_o, and what the
scheme prepares once a forward pass (a whole model shares that among its layers). Eight presets at a
time take turns with `none`; ratios are taken within a turn. Peak memory is that of processes of
their own. Writes benchmarks/results/attention.json and .md. Expect two minutes on two quiet cores.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from _contestants import network
from _presets import NONE, Work, peaks, presets, race_presets, report_peaks, with_memory, write
from step import machine, race

from relpos.model.attention import LayerCall
from relpos.model.dropout import seed_dropout
from relpos.model.precision import autocast
from relpos.model.tokens import Tokens

SHAPE = {"batch": 32, "length": 128, "heads": 4, "head_dim": 64}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="these presets, such as position=tisa; the rows of the others stay as they are",
    )
    parser.add_argument("--memory", nargs="+", metavar="NAME", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    make = partial(work, precision=asked.precision)
    if asked.memory:
        return report_peaks(asked.memory, make, asked.threads)
    torch.set_num_threads(asked.threads)
    names = asked.only or presets()
    rows = race_presets(make, race, names, asked.repeats, together=8)
    rows = with_memory(
        rows, peaks([__file__, "--precision", asked.precision], [NONE, *names], asked.threads)
    )
    title = f"Attention forward and backward, 32 × 128, 4 heads of 64, {asked.precision}, over that of `none`"
    settings = {"precision": asked.precision, **SHAPE, "repeats": asked.repeats}
    write(
        "attention",
        title,
        {"machine": machine(asked.threads), **settings, "presets": rows},
        keep=bool(asked.only),
    )


def work(name: str, precision: str) -> Work:
    """One forward and backward pass through a layer's attention, to its input and all its
    parameters."""
    torch.manual_seed(0)
    encoder = network(
        *name.split(), "size=small", "size.layers=1", "vocabulary=100"
    ).encoder.train()
    attention, position = encoder.layers[0].attention, encoder.position
    x = torch.randn(SHAPE["batch"], SHAPE["length"], encoder.shape.hidden, requires_grad=True)
    upstream = torch.randn_like(x)
    steps, tokens = iter(range(1 << 30)), Tokens(SHAPE["batch"], SHAPE["length"])

    def once() -> None:
        step = next(steps)
        position.begin_step(step)
        seed_dropout(encoder, step)
        with autocast(precision, "cpu"):
            y = attention(
                x, LayerCall(0, position, position.prepare(SHAPE["length"]), None, tokens, tokens)
            )
        y.backward(upstream.to(y.dtype))
        x.grad = None
        encoder.zero_grad()

    return once


if __name__ == "__main__":
    main()
