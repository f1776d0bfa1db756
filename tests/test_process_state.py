"""What tests leave in their process is put back."""

import importlib
import logging
import os
import signal
import sys
from pathlib import Path

import pytest
import torch

from process_state import ProcessState
from relpos.cli import main
from relpos.model.kernels import library


@pytest.fixture
def state(tmp_path: Path) -> ProcessState:
    return ProcessState(tmp_path)


def test_signal_handlers_arguments_and_folder_of_a_command_are_those_before(
    state: ProcessState, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    level = logging.getLogger().level
    before = [*sys.argv], [*sys.path], Path.cwd(), signal.getsignal(signal.SIGPIPE), dict(os.environ)
    os.chdir(tmp_path)
    os.environ["MADE_UP"], os.environ["OMP_NUM_THREADS"] = "1", "7"
    assert main(["params", "size=tiny"]) == 0
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    logging.getLogger().setLevel(level + 10)
    state.restore()
    assert logging.getLogger().level == level
    assert (sys.argv, sys.path, Path.cwd(), signal.getsignal(signal.SIGPIPE), dict(os.environ)) == before


def test_a_module_that_a_test_has_written_is_forgotten_and_others_stay(
    state: ProcessState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_up_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("made_up_module")
    sys.modules.pop("this", None)
    importlib.import_module("this")
    state.restore()
    assert "made_up_module" not in sys.modules
    assert "this" in sys.modules


def test_torch_is_as_in_a_new_process(state: ProcessState, monkeypatch: pytest.MonkeyPatch) -> None:
    state.restore()
    first = torch.rand(3)
    torch.set_num_threads(2)
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    monkeypatch.setitem(library._loaded, "library", None)
    state.restore()
    assert torch.equal(torch.rand(3), first)
    assert (torch.get_num_threads(), torch.get_default_dtype()) == (1, torch.float32)
    assert not torch.are_deterministic_algorithms_enabled()
    assert library._loaded == {}
