"""What follows the import of another library; tests/train/test_export.py tells that transformers then knows our networks."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from relpos.when_imported import TRANSFORMERS, when_imported


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that can be imported, and was not yet."""
    (tmp_path / "relpos_test_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.delitem(sys.modules, "relpos_test_module", raising=False)
    return "relpos_test_module"


def test_it_is_called_when_the_module_is_whole_and_once(module: str) -> None:
    seen: list[int] = []
    when_imported(module, lambda: seen.append(sys.modules[module].value))
    assert seen == []
    for _ in range(2):
        __import__(module)
    assert seen == [1]


def test_it_is_called_at_once_where_the_module_is_there_already(module: str) -> None:
    __import__(module)
    seen: list[int] = []
    when_imported(module, lambda: seen.append(1))
    assert seen == [1]


def test_a_module_that_is_not_there_stays_that(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    when_imported("relpos_has_no_such_module", lambda: seen.append(1))
    with pytest.raises(ModuleNotFoundError):
        __import__("relpos_has_no_such_module")
    assert seen == []


def test_import_relpos_alone_loads_neither_torch_nor_transformers() -> None:
    code = "import relpos, sys; assert not {'transformers', 'torch', 'hydra'} & sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_torchmetrics_is_told_that_there_is_no_transformers(tmp_path: Path) -> None:
    """Seen with a torchmetrics of three lines, in a process of its own; the real one has these names."""
    folder = tmp_path / "torchmetrics" / "utilities"
    folder.mkdir(parents=True)
    (folder / "imports.py").write_text("".join(f"{name} = True\n" for name in TRANSFORMERS))
    (folder / "__init__.py").touch()
    (tmp_path / "torchmetrics" / "__init__.py").write_text(
        f"from torchmetrics.utilities.imports import {', '.join(TRANSFORMERS)}\n"
    )
    code = "import relpos.when_imported as w; w.import_quickly(); import torchmetrics as t; "
    code += "assert [getattr(t, name) for name in w.TRANSFORMERS] == [False] * 3"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    real = importlib.import_module("torchmetrics.utilities.imports")
    assert all(hasattr(real, name) for name in TRANSFORMERS)
