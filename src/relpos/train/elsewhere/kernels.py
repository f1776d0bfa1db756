"""Attention by its definition, in plain torch; relpos itself computes the same faster."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from relpos.model.kernels.eager import attention

Name = str
sweeps: Any = None  # never asked: they serve nothing here


def sweeps_serve(name: str, x: Tensor, training: bool) -> bool:
    """Whether compiled passes serve: there are none."""
    return False


def attend(
    name: str, q: Any, k: Any, v: Tensor, terms: Any, mask: Any, dropout: Any, training: bool, maps: list[Tensor] | None = None
) -> tuple[Tensor, str]:
    """The attention, and the name of the kernel that has computed it."""
    return attention(q, k, v, terms, mask, dropout, maps), "eager"
