"""`Float[Tensor, "batch n"]` is a tensor; the words name its axes, for whoever reads."""

from __future__ import annotations

from typing import Any


class Array:
    """Float, Int, Bool, …: annotations that are not checked."""

    def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
        return item[0]


def __getattr__(name: str) -> type[Array]:
    return Array
