"""Kernels: ways of computing the attention. `eager` is the definition; the others equal it and say what they support."""

from __future__ import annotations

from types import ModuleType

import torch

from relpos.errors import RelposError, nearest
from relpos.model.kernels import eager, fused
from relpos.model.position.base import Terms

FASTEST_FIRST: tuple[ModuleType, ...] = (fused, eager)


def name_of(kernel: ModuleType) -> str:
    return kernel.__name__.rpartition(".")[2]


def check_kernel(name: str) -> str:
    """The name itself; raises RelposError where no kernel has it."""
    known = ["auto", *(name_of(kernel) for kernel in FASTEST_FIRST)]
    if name not in known:
        raise RelposError(f"there is no kernel {name!r}.{nearest(name, known)}")
    return name


def select(name: str, terms: Terms, device: torch.device, training: bool) -> ModuleType:
    """The named kernel, or with `auto` the first that serves these terms. RelposError where the named one does not."""
    for kernel in FASTEST_FIRST:
        if name in ("auto", name_of(kernel)) and kernel.supports(terms, device, training):
            return kernel
    raise RelposError(
        f"kernel {name!r} does not serve this position scheme on {device.type}; speed.kernel=auto picks one that does"
    )
