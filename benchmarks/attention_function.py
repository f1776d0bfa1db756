"""`relpos.attention` beside torch's attention with a tensor of biases, forward and backward, with
gradients of the biases.

    python benchmarks/attention_function.py > benchmarks/results/attention_function.md

Learned biases over offsets (heads, 2n − 1): torch's `scaled_dot_product_attention` needs them
spread to (heads, n, n), and autograd sums the gradient back. CPU time of one thread, batch 2, 4
heads of 64 channels. Medians of alternating repetitions; the ratio is the median of the ratios
within a repetition.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

import relpos

BATCH, HEADS, WIDTH = 2, 4, 64
LENGTHS = (128, 256, 512, 1024, 2048)


def spread(offset: Tensor, n: int) -> Tensor:
    """(heads, 2n−1) → (heads, n, n): offset j − i in row i, column j."""
    at = torch.arange(n)[None] - torch.arange(n)[:, None] + n - 1
    return offset[:, at]


def theirs(q: Tensor, k: Tensor, v: Tensor, offset: Tensor) -> Tensor:
    """torch's attention with the biases of all pairs."""
    bias = spread(offset, q.shape[-2])
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=bias[None].expand(BATCH, -1, -1, -1)
    )


def ours(q: Tensor, k: Tensor, v: Tensor, offset: Tensor) -> Tensor:
    """The function that is measured."""
    return relpos.attention(q, k, v, offset=offset)


def seconds(attention: Callable[..., Tensor], leaves: list[Tensor]) -> float:
    """Of CPU time, of one forward and backward pass."""
    for leaf in leaves:
        leaf.grad = None
    begun = time.process_time()
    attention(*leaves).sum().backward()
    return time.process_time() - begun


def main() -> None:
    """Prints the table."""
    torch.set_num_threads(1)
    print(
        "| n | format | torch, ms | relpos, ms | ratio (least, most) |\n|---:|---|---:|---:|---:|"
    )
    for n in LENGTHS:
        for dtype in (torch.float32, torch.bfloat16):
            leaves = [
                torch.randn(BATCH, HEADS, n, WIDTH, dtype=dtype, requires_grad=True)
                for _ in range(3)
            ]
            leaves.append(torch.randn(HEADS, 2 * n - 1, dtype=dtype, requires_grad=True))
            pairs = [
                (seconds(theirs, leaves), seconds(ours, leaves))
                for _ in range(3 + max(7, 16384 // n))
            ][3:]
            other, mine = (statistics.median(times) * 1e3 for times in zip(*pairs, strict=True))
            ratios = sorted(a / b for a, b in pairs)
            shown = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}, {ratios[-1]:.2f})"
            print(
                f"| {n:,} | {str(dtype).removeprefix('torch.')} | {other:.1f} | {mine:.1f} | "
                f"{shown} |"
            )


if __name__ == "__main__":
    main()
