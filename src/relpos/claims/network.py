"""Networks and their position schemes from overrides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from relpos.config.compose import composed, resolved


def configured(overrides: Sequence[str]) -> dict[str, Any]:
    """The configuration of `relpos params OVERRIDES…`, resolved.

    >>> configured(["position=tisa", "kernels=3"])["position"]["kernels"]
    3
    """
    return resolved(composed("params", overrides))


@cache
def position_parameters(*overrides: str) -> int:
    """How many parameters the position scheme of these overrides has. Only the scheme is built, not the network around it."""
    from relpos.model.position import Scheme
    from relpos.model.shape import Shape
    from relpos.trust import constructor

    config = configured(overrides)
    size = config["size"]
    shape = Shape(
        size["heads"], size["hidden"] // size["heads"], size["hidden"], size["embedding"], size["layers"], size["max_positions"]
    )
    built: Scheme = constructor(config["position"], "position")(shape)
    return sum(parameter.numel() for parameter in built.parameters())
