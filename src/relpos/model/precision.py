"""Number formats: `with autocast(precision, device): …` around forward passes is the only way to choose one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Literal

import torch

from relpos.ranges import check

Precision = Literal["fp32", "bf16"]


def autocast(precision: str, device: str | torch.device) -> AbstractContextManager[object]:
    """`fp32` does nothing; `bf16` multiplies matrices in bfloat16, with float32 weights, sums and normalisations."""
    check("precision", precision, Precision)
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(torch.device(device).type, dtype=torch.bfloat16)


_casts: dict[torch.Tensor, torch.Tensor] | None = None  # of the update that `casting_once` is around


@contextmanager
def casting_once(precision: str, device: str | torch.device) -> Iterator[None]:
    """Around all forward passes of an update: each weight is cast to bfloat16 once, and not once in each pass.

    torch keeps casts until the outermost autocast ends, which is this one, so weights must not change inside. Backward passes may
    run inside.
    """
    global _casts
    if precision == "fp32":
        yield
        return
    _casts = {}
    try:
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=False):
            yield
    finally:
        _casts = None


def cast_once(weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The weight in this number format: for operations of our own, to which autocast does not hand its casts."""
    if _casts is None or weight.dtype == dtype:
        return weight.to(dtype)
    if weight not in _casts:
        _casts[weight] = weight.to(dtype)
    return _casts[weight]


@cache
def slowdown_of_bf16() -> float:
    """Time of a matrix product in bfloat16 over that in float32 on this CPU: below 1 where it has instructions for bfloat16."""
    seconds = []
    for dtype in (torch.float32, torch.bfloat16):
        a = torch.ones(256, 256, dtype=dtype)
        times = []
        for _ in range(4):
            start = time.perf_counter()
            a @ a
            times.append(time.perf_counter() - start)
        seconds.append(min(times))
    return seconds[1] / seconds[0]


def compute_dtype(x: torch.Tensor) -> torch.dtype:
    """The number format of matrix products with x under the autocast in force."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) and x.dtype != torch.float64 else x.dtype
