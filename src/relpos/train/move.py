"""Tensors inside dataclasses, lists and dicts: to a device, or into pinned memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from torch import Tensor


def move(value: Any, device: Any) -> Any:
    """The value with its tensors on a device; those that are there already are not copied."""
    return _each(value, lambda tensor: tensor.to(device, non_blocking=True))


def pinned(value: Any) -> Any:
    """The value with its tensors in pinned memory, from which a GPU copies while the CPU goes on."""
    return _each(value, Tensor.pin_memory)


def _each(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, list):
        return [_each(item, function) for item in value]
    if isinstance(value, dict):
        return {key: _each(item, function) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _each(getattr(value, field.name), function) for field in fields(value)})
    return value
