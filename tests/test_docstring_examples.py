"""The examples in docstrings run, and what a user names in a configuration has one."""

import ast
import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.utils import get_class

import relpos
from relpos.model.conv import Merge as MergedConvs
from relpos.model.kernels import eager
from relpos.model.position import Merge as MergedSchemes
from schemes import CONVS, POSITIONS, node

SOURCE = Path(relpos.__file__).parent


def examples() -> Iterator[Any]:
    """(module, name, docstring) of all docstrings with a prompt; read from the text, so that
    nothing is imported that has none."""
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if ">>> " not in text:
            continue
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for part in ast.walk(ast.parse(text)):
            if isinstance(part, ast.Module | ast.ClassDef | ast.FunctionDef) and ">>> " in (
                ast.get_docstring(part) or ""
            ):
                name = getattr(part, "name", "__doc__")
                yield pytest.param(module, name, ast.get_docstring(part), id=f"{module}.{name}")


def targets(content: Any) -> Iterator[type[Any]]:
    """The classes that a preset names, those of a merge's parts too."""
    if isinstance(content, dict):
        if "_target_" in content:
            yield get_class(content["_target_"])
        for value in content.values():
            yield from targets(value)
    elif isinstance(content, list):
        for value in content:
            yield from targets(value)


@pytest.mark.parametrize(("module", "name", "text"), list(examples()))
def test_the_example_runs(module, name, text, request):
    if module == "relpos":
        request.getfixturevalue("toy_runs")  # what the examples would make first is there
    torch.manual_seed(0)
    names = dict(vars(importlib.import_module(module))) | {"torch": torch}
    test = doctest.DocTestParser().get_doctest(text, names, f"{module}.{name}", module, 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
    assert not report, "".join(report)


def test_every_public_function_scheme_and_convolution_has_an_example():
    presets = [
        node(group, name)
        for group, names in (("position", POSITIONS), ("conv", CONVS))
        for name in names
    ]
    shown: list[Any] = [
        value for name in relpos.__all__ if callable(value := getattr(relpos, name))
    ]
    shown += [MergedSchemes, MergedConvs, eager.attention]
    shown += [kind for content in presets for kind in targets(content)]
    assert [thing.__qualname__ for thing in shown if ">>> " not in (thing.__doc__ or "")] == []
