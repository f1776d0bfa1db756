"""What follows the import of another library; tests/train/test_export.py tells that transformers
then knows our networks."""

import subprocess
import sys
from pathlib import Path

import pytest

from relpos.when_imported import when_imported


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that can be imported, and was not yet."""
    (tmp_path / "relpos_test_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.delitem(sys.modules, "relpos_test_module", raising=False)
    return "relpos_test_module"


def test_the_function_is_called_once_when_the_module_is_whole(module):
    seen: list[int] = []
    when_imported(module, lambda: seen.append(sys.modules[module].value))
    assert seen == []
    for _ in range(2):
        __import__(module)
    assert seen == [1]


def test_the_function_is_called_at_once_where_the_module_is_imported(module):
    __import__(module)
    seen: list[int] = []
    when_imported(module, lambda: seen.append(1))
    assert seen == [1]


def test_import_relpos_alone_loads_neither_torch_nor_transformers():
    code = "import relpos, sys; assert not {'transformers', 'torch', 'hydra'} & sys.modules.keys()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
