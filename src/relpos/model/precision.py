"""The one entry to number formats: `with autocast(precision, device): …` around forward passes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
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


def compute_dtype(x: torch.Tensor) -> torch.dtype:
    """The number format of matrix products with x here and now."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) and x.dtype != torch.float64 else x.dtype
