"""Attention by its definition, in plain torch; relpos itself computes the same faster."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from relpos.model.block import added
from relpos.model.dropout import drop
from relpos.model.kernels.eager import attention

Name = str


def bf16_gain() -> float:
    """Taken for granted here."""
    return 1.0


class sweeps:
    """Single passes: there are none."""

    @staticmethod
    def serve(name: str, x: Tensor, training: bool) -> bool:
        """Never."""
        return False

    @staticmethod
    def dropped(name: str, y: Tensor, draw: Any, x: Tensor | None = None) -> Tensor:
        """drop(y), or x + drop(y)."""
        return drop(y, draw) if x is None else added(x, y, draw)

    @staticmethod
    def linear(x: Tensor, part: Any, name: str, training: bool) -> Tensor:
        """The linear map `part` of x."""
        y: Tensor = part(x)
        return y


class layer_cpu:
    """Layers of one step: there are none."""

    @staticmethod
    def serves(layer: Any, x: Tensor, call: Any) -> bool:
        """Never."""
        return False

    @staticmethod
    def layer_of(layer: Any, x: Tensor, call: Any) -> Tensor | None:
        """None: the layer is computed in steps."""
        return None


def packs(name: str, x: Tensor, n: int) -> bool:
    """Sequences are never one row."""
    return False


def attend(
    name: str, q: Any, k: Any, v: Tensor, terms: Any, mask: Any, dropout: Any, training: bool, scale: float = 1.0,
    maps: list[Tensor] | None = None, held: Any = None,
) -> tuple[Tensor, str]:  # fmt: skip
    """The attention, and the name of the kernel that has computed it."""
    return attention(
        q,
        k,
        v,
        terms,
        mask,
        dropout,
        scale,
        maps,
    ), "eager"
