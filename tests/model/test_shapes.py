"""Tensors that cross a door have the shapes that its annotations say: every test of the model and the analysis checks it."""

import importlib
import inspect
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from jaxtyping import TypeCheckError

from relpos.model.block import Block
from relpos.model.heads import Head
from schemes import SHAPE
from shapes import CHECKED


def modules() -> Iterator[ModuleType]:
    return map(importlib.import_module, CHECKED)


def functions(holder: Any) -> Iterator[Any]:
    """Those defined in a module or class, methods and properties too."""
    for value in vars(holder).values():
        plain = getattr(value, "fget", None) or getattr(value, "__func__", value)
        if getattr(plain, "__module__", "") != getattr(holder, "__module__", holder.__name__ if inspect.ismodule(holder) else ""):
            continue
        if inspect.isclass(plain):
            yield from functions(plain)
        elif inspect.isfunction(plain):
            yield plain


def test_a_tensor_of_another_shape_is_refused() -> None:
    head = Head(SHAPE.hidden, SHAPE.embedding, 23, "gelu", Block())
    with pytest.raises(TypeCheckError, match="parameter words"):
        head(torch.zeros(2, SHAPE.hidden), torch.zeros(23))


def test_a_result_of_another_shape_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    head = Head(SHAPE.hidden, SHAPE.embedding, 23, "gelu", Block())
    monkeypatch.setattr(head, "norm", torch.nn.Flatten(0))
    with pytest.raises(TypeCheckError, match=r"transform\(\) return"):
        head.transform(torch.zeros(2, SHAPE.hidden))


def test_every_annotation_can_be_read() -> None:
    """One that cannot would be passed over in silence."""
    for module in modules():
        for function in functions(module):
            assert typing.get_type_hints(function, include_extras=True) is not None
