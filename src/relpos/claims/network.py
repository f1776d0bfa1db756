"""The parameters of a position scheme, counted."""

from __future__ import annotations

from functools import cache

from relpos.config.compose import composed, resolved
from relpos.model.position import Scheme
from relpos.model.shape import Shape
from relpos.trust import constructor


@cache
def position_parameters(*overrides: str) -> int:
    """How many parameters the position scheme of these overrides has. Only the scheme is built, not the network around it."""
    config = resolved(composed("params", overrides))
    size = config["size"]
    shape = Shape(
        size["heads"], size["hidden"] // size["heads"], size["hidden"], size["embedding"], size["layers"], size["max_positions"]
    )
    built: Scheme = constructor(config["position"], "position")(shape)
    return sum(parameter.numel() for parameter in built.parameters())
