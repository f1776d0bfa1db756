"""The sizes that a position scheme or a convolution may depend on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """`layers` counts passes: twelve for ALBERT's one shared layer."""

    heads: int
    head_dim: int
    hidden: int
    embedding: int
    layers: int
    max_positions: int
