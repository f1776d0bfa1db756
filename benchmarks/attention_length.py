"""Attention alone, forward and backward, by length: every attention kernel that this CPU has, and
torch's SDPA.

    python benchmarks/attention_length.py [--lengths 128 256 512 1024 2048] [--repeats 5] [--threads
    N] [--tokens 4096]

4 heads of 64, so many tokens in all at each length, dropout of 0.1, fp32, with the terms of
`composite` (β and a, k = 8) and without any; SDPA is given them as one tensor. Kernels take turns,
ratios over `eager` are taken within a turn. Writes benchmarks/results/attention_length.json and
.md. Expect three minutes on two quiet cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent))
from _report import machine, write_results
from step import race

from relpos.model import kernels
from relpos.model.dropout import Draw
from relpos.model.kernels import eager
from relpos.model.position import Terms

HEADS, WIDTH, K = 4, 64, 8


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 256, 512, 1024, 2048])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    rows = []
    for n in asked.lengths:
        for kind in ("none", "composite"):
            times = race(contestants(n, max(1, asked.tokens // n), kind), asked.repeats)
            for name, seconds in times.items():
                ratios = [a / b for a, b in zip(times["eager"], seconds, strict=True)]
                rows.append(
                    {
                        "n": n,
                        "terms": kind,
                        "kernel": name,
                        "milliseconds": f"{1e3 * statistics.median(seconds):.1f}",
                        "speed over eager": f"{statistics.median(ratios):.2f}",
                        "lowest – highest": f"{min(ratios):.2f} – {max(ratios):.2f}",
                    }
                )
                print(rows[-1])
    settings = {
        "heads": HEADS,
        "head_dim": WIDTH,
        "dropout": 0.1,
        "tokens": asked.tokens,
        "repeats": asked.repeats,
    }
    write_results("attention_length", {"machine": machine(), **settings, "rows": rows})


def contestants(n: int, batch: int, kind: str) -> dict[str, Callable[[], Any]]:
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).requires_grad_()

    q, k, v = (numbers(batch, HEADS, n, WIDTH) for _ in range(3))
    upstream = torch.randn(batch, HEADS, n, WIDTH, generator=generator)
    terms = Terms()
    if kind == "composite":
        terms = Terms(offset=numbers(HEADS, 2 * n - 1), query=numbers(batch, HEADS, n, 2 * K + 1))
    leaves = [x for x in (q, k, v, terms.offset, terms.query) if x is not None]

    def work(attend: Callable[[], Tensor]) -> Callable[[], Any]:
        def once() -> None:
            attend().backward(upstream)
            for leaf in leaves:
                leaf.grad = None

        return once

    def ours(kernel: ModuleType) -> Callable[[], Any]:
        return work(lambda: kernel.attention(q * WIDTH**-0.5, k, v, terms, None, Draw(0.1, 7)))

    def sdpa() -> Tensor:
        bias = None if kind == "none" else eager.scores(None, None, terms, v)
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=bias, dropout_p=0.1
        )

    serving = [kernel for kernel in kernels.FASTEST_FIRST if kernel.supports(terms, v, True)]
    return {kernels.name_of(kernel): ours(kernel) for kernel in serving} | {"sdpa": work(sdpa)}


if __name__ == "__main__":
    main()
