"""Attention kernels: ways of computing the attention. `eager` is the definition; the others equal it and say what they support."""

from __future__ import annotations

from types import ModuleType
from typing import Literal

import torch

from relpos.errors import RelposError
from relpos.model.kernels import eager, fused
from relpos.model.position.base import Terms

FASTEST_FIRST: tuple[ModuleType, ...] = (fused, eager)
Name = Literal["auto", "fused", "eager"]


def name_of(kernel: ModuleType) -> str:
    return kernel.__name__.rpartition(".")[2]


def select(name: str, terms: Terms, device: torch.device, training: bool) -> ModuleType:
    """The named attention kernel, or with `auto` the first that serves these terms. RelposError where the named one does not."""
    for kernel in FASTEST_FIRST:
        if name in ("auto", name_of(kernel)) and kernel.supports(terms, device, training):
            return kernel
    raise RelposError(
        f"attention kernel {name!r} does not serve this position scheme on {device.type}; speed.kernel=auto picks one that does"
    )
