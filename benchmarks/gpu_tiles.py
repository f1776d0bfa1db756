"""Which tiles are fast on this GPU? Variants of what Triton's programs are launched with, timed by
kernel.

    python benchmarks/gpu_tiles.py [--seconds 60] [--only WORD …] [--out FOLDER] [--rehearse]

Attention forward and backward with the terms of `composite` at 256 × 128 tokens, 4 heads of 64,
with dropout and a mask; norms, GELU and cross-entropy at the sizes of a step of BERT-small. Each
variant is compiled first, by processes side by side; one whose process ends is named and left out.
Then it is recorded as a CUDA graph and replayed ten times under torch's profiler.

Writes {variant: {kernel: microseconds, "whole": microseconds}} as gpu_tiles.json into FOLDER
(benchmarks/results). The constants in `relpos.model.kernels` follow from such a file. `--rehearse`
calls some variants once at toy sizes on a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent))
if "--rehearse" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

import torch
from _contestants import VOCABULARY
from _gpu_steps import Work, device, free, need_gpu
from _report import RESULTS
from _workers import Task, side_by_side
from gpu import as_graph
from torch import Tensor

from relpos.files import write_text
from relpos.model.dropout import Draw
from relpos.model.kernels import triton, triton_sweeps, triton_terms
from relpos.model.kernels.triton import Tiles
from relpos.model.position import Terms

ROWS, HEADS, N, WIDTH = 256, 4, 128, 64
REPEATS = 10
Changes = list[tuple[Any, str, Any]]
"""Module, name, value in place of the module's own."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=60,
        help="no variant is timed later; compiling takes two thirds at most",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[""],
        metavar="WORD",
        help="variants whose name has one of these",
    )
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument(
        "--rehearse", action="store_true", help="some of them at toy sizes, on a CPU"
    )
    asked = parser.parse_args(arguments)
    end = time.monotonic() + asked.seconds
    chosen = {
        name: variant
        for name, variant in variants(asked.rehearse).items()
        if any(word in name for word in asked.only)
    }
    if not asked.rehearse:
        need_gpu("gpu_tiles.py")
    tasks: dict[str, Task] = {name: partial(once, *variant) for name, variant in chosen.items()}
    faults = {
        name: result["fault"]
        for name, result in side_by_side(tasks, len(os.sched_getaffinity(0)), asked.seconds * 2 / 3) if "fault" in result
    }  # fmt: skip
    results: dict[str, dict[str, float]] = {}
    for name, variant in chosen.items():
        if name not in faults and time.monotonic() < end:
            results[name] = timed(*variant)
            free()
    write_text(asked.out / "gpu_tiles.json", json.dumps(results, indent=1) + "\n")
    for name, times in results.items():
        print(
            f"{name}: "
            + ", ".join(f"{kernel} {microseconds}" for kernel, microseconds in times.items())
        )
    for name, fault in faults.items():
        print(f"WRONG  {name}: {fault}")


def variants(rehearse: bool) -> dict[str, tuple[Callable[..., Work], Changes]]:
    """By name: what makes the work, and the launch parameters in place of those in the source;
    "now" has the source's."""
    rows, n = (2, 16) if rehearse else (ROWS, N)
    attend, tokens = partial(attention, rows, n), rows * n
    variants: dict[str, tuple[Callable[..., Work], Changes]] = {
        "attention, now": (attend, []), "norms, now": (partial(norms, tokens), []), "GELU, now": (partial(gelu, tokens), []),
        "cross-entropy, now": (partial(loss, tokens), []),
    }  # fmt: skip
    if rehearse:
        return variants
    for backward, name in ((True, "backward"), (False, "forward")):
        for tiles in (
            Tiles(16, 128, 8, 1), Tiles(16, 128, 8), Tiles(32, 128, 8, 1), Tiles(32, 128, 8), Tiles(64, 128, 8, 1),
            Tiles(64, 64, 4, 1), Tiles(64, 64, 4), Tiles(64, 64, 4, 3), Tiles(64, 64, 8), Tiles(128, 64, 8), Tiles(128, 128, 8, 1),
        ):  # fmt: skip
            variants[f"attention, {name} {tuple(tiles)}"] = (
                attend,
                [(triton, "_tiles", tiled(tiles, backward))],
            )
    for tile in (1024, 2048, 4096, 8192):
        variants[f"attention, terms of {tile}"] = attend, [(triton_terms, "TILE", tile)]
    for tile, warps, parts in (
        (512, 2, 1024),
        (1024, 2, 512),
        (1024, 2, 1024),
        (2048, 4, 512),
        (4096, 4, 512),
        (8192, 8, 1 << 20),
    ):
        shape = partial(shaped, tile=tile, warps=warps)
        changes = [(triton_sweeps, "_norm_shape", shape), (triton_sweeps, "MOST_PARTS", parts)]
        variants[f"norms, {tile} numbers, {warps} warps, {parts} parts"] = (
            partial(norms, tokens),
            changes,
        )
    for tile in (2048, 4096, 8192):
        variants[f"GELU, {tile}"] = partial(gelu, tokens), [(triton_sweeps, "TILE", tile)]
        variants[f"cross-entropy, {tile}"] = (
            partial(loss, tokens),
            [(triton_sweeps, "COLUMNS", tile)],
        )
    return variants


def tiled(tiles: Tiles, of_backward: bool) -> Callable[..., Tiles]:
    """`_tiles` with others in one of the passes."""
    own = triton._tiles
    return lambda n, size, backward: tiles if backward == of_backward else own(n, size, backward)


def shaped(width: int, _tile: int, _warps: int, tile: int, warps: int) -> dict[str, int]:
    padded = 1 << (width - 1).bit_length()
    return {"WIDTH": width, "PADDED": padded, "ROWS": max(1, tile // padded), "num_warps": warps}


@contextmanager
def changed(changes: Changes) -> Iterator[None]:
    with ExitStack() as stack:
        for module, name, value in changes:
            stack.enter_context(patch.object(module, name, value))
        yield


def once(make: Callable[[], Work], changes: Changes) -> dict[str, Any]:
    with changed(changes):
        make()()
    return {}


def timed(make: Callable[[], Work], changes: Changes) -> dict[str, float]:
    """Kernel → microseconds of one call, the longest first; `whole` is the call by events."""
    with changed(changes):
        work = make()
        work()
        replay = as_graph(work)
    if device().type != "cuda":
        return {}
    replay()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(REPEATS):
            replay()
        torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(REPEATS):
        replay()
    end.record()
    torch.cuda.synchronize()
    kernels = {
        kernel.key[:40]: kernel.self_device_time_total / REPEATS for kernel in seen.key_averages()
    }
    longest = sorted((pair for pair in kernels.items() if pair[1] > 0), key=lambda pair: -pair[1])[
        :8
    ]
    return {"whole": round(1e3 * start.elapsed_time(end) / REPEATS, 1)} | {
        name: round(value, 1) for name, value in longest
    }


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, device=device()).bfloat16()


def attention(rows: int, n: int) -> Work:
    """Forward and backward to q, k, v, β, the table of a and its bias."""
    torch.manual_seed(0)
    qkv, offset, table, bias = (
        numbers(*shape).requires_grad_()
        for shape in ((rows, n, 3, HEADS, WIDTH), (HEADS, 2 * n - 1), (WIDTH, 17), (HEADS, 17))
    )
    q, k, v = (x.transpose(1, 2) for x in qkv.unbind(2))
    terms = Terms(offset=offset, query=q, query_table=table, query_bias=bias)
    upstream, mask = (
        numbers(rows, HEADS, n, WIDTH),
        torch.ones(rows, n, dtype=torch.bool, device=device()),
    )

    def work() -> Any:
        y = triton.attention(q, k, v, terms, mask, Draw(0.1, 1), WIDTH**-0.5)
        return torch.autograd.grad(y, [qkv, offset, table, bias], upstream)

    return work


def norms(tokens: int) -> Work:
    """LN(x + drop(y + b)) and its gradients."""
    x, y, grad = (numbers(1, tokens, HEADS * WIDTH) for _ in range(3))
    weight, draw = torch.ones(HEADS * WIDTH, device=device()), Draw(0.1, 1)

    def work() -> Any:
        _, total, mean, rstd = triton_sweeps.norm_forward(x, y, weight, weight, 1e-5, draw, weight)
        return triton_sweeps.sum_rows(
            triton_sweeps.norm_backward(grad, [], total, mean, rstd, weight, draw, True)[2]
        )

    return work


def gelu(tokens: int) -> Work:
    wide, grad = (numbers(tokens, 4 * HEADS * WIDTH) for _ in range(2))
    bias = torch.zeros(4 * HEADS * WIDTH, device=device())

    def work() -> Any:
        active = triton_sweeps.gelu_forward(wide, bias)
        return triton_sweeps.sum_rows(
            triton_sweeps.gelu_backward(wide, bias, grad, active)[2][None]
        )

    return work


def loss(tokens: int) -> Work:
    """Over the vocabulary, of the 15 % of tokens that are predicted."""
    logits = numbers(tokens * 15 // 100, VOCABULARY + -VOCABULARY % 64)
    target = torch.zeros(len(logits), dtype=torch.int64, device=device())
    return lambda: triton_sweeps.cross_entropy_(logits, None, target)


if __name__ == "__main__":
    main()
