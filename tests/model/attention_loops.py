"""The equation of attention as loops over sequences, heads and tokens, whatever holes are filled.
For tests."""

import math
from itertools import product
from types import SimpleNamespace

import torch
from torch import Tensor

import reference


def looped(
    given: dict[str, Tensor],
    real: Tensor | None = None,
    *,
    scale: float = 1.0,
    outside: str = "clamp",
    columns: Tensor | None = None,
    reach: float = math.inf,
    causal: bool = False,
) -> Tensor:
    """(B, H, n, head_dim) for q, k, v and terms by the names of `Terms`, of which v alone need be
    there; not a number where a query sees no token."""
    v = given["v"]
    batch, heads, n, width = v.shape
    zeros = v.new_zeros(batch, heads, n, 2 * n - 1)
    absent = {"q": torch.zeros_like(v), "k": torch.zeros_like(v), "value": v.new_zeros(1, width)}
    absent |= {"offset": zeros[0, :, 0], "query": zeros, "key": zeros, "dense": zeros}
    x, y = SimpleNamespace(**absent | given), torch.full_like(v, torch.nan)

    def read(kernel: Tensor, offset: int) -> Tensor:
        if columns is None:
            return reference.read(kernel, offset, outside)
        return kernel[columns[offset + n - 1]]

    for b, h, i in product(range(batch), range(heads), range(n)):
        scores, values = [], []
        for j in range(n):
            hidden = real is not None and not real[b, j]
            if hidden or abs(j - i) > reach or (causal and j > i):
                continue
            score = scale * (x.q[b, h, i] @ x.k[b, h, j]) + x.offset[h, j - i + n - 1]
            score = score + read(x.query[b, h, i], j - i) + read(x.key[b, h, j], i - j)
            scores.append(score + x.dense[0, h, i, j])
            values.append(v[b, h, j] + reference.read(x.value, j - i, outside))
        if scores:
            y[b, h, i] = torch.stack(scores).softmax(0) @ torch.stack(values)
    return y
