"""The benchmark for GPUs runs from end to end on a CPU, at toy sizes, so that it is whole when there is a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from linked import link_runs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def gpu() -> ModuleType:
    if torch.cuda.is_available():
        pytest.skip("here it would measure")
    pytest.importorskip("transformers")
    pytest.importorskip("triton")
    import gpu as module

    return module


@pytest.mark.full
def test_it_rehearses_without_a_gpu_and_goes_on_where_it_was_stopped(
    gpu: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["--rehearse", "--resume", "--only", "position=rope", "--out", str(tmp_path)]
    attention = gpu.attention
    monkeypatch.setattr(gpu, "attention", stopped)
    gpu.main(asked)
    assert "stopped in attention_16" in capsys.readouterr().err
    before = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert "ours position=composite" in before["step_tiny"]
    monkeypatch.setattr(gpu, "attention", attention)
    gpu.main(asked)
    shown = capsys.readouterr().out
    for row in ("ours position=rope", "Hugging Face compiled", "position=composite, no graphs", "triton, dropout",
                "FlexAttention, compiled", "DeBERTa's terms, triton"):  # fmt: skip
        assert f"| {row} |" in shown
    after = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert before.items() <= after.items()  # nothing is measured twice


def stopped(*_: object) -> None:
    raise TimeoutError


def test_without_a_gpu_it_refuses_in_one_line(gpu: ModuleType) -> None:
    with pytest.raises(SystemExit, match="needs a CUDA device and there is none"):
        gpu.main([])


@pytest.mark.full
def test_real_pairs_are_rehearsed_with_the_toy_language_and_carried_on(
    gpu: ModuleType, python: str, prepared: Path, tmp_path: Path
) -> None:
    link_runs(prepared, tmp_path / "first")
    link_runs(prepared, tmp_path / "second", ("toy", "store"))
    command = [python, BENCHMARKS / "gpu_real.py", "--rehearse", "--out", tmp_path / "out"]
    subprocess.run(command, env=environment() | {"RELPOS_RUNS": str(tmp_path / "first")}, check=True)
    found = json.loads((tmp_path / "out" / "real.json").read_text(encoding="utf-8"))
    assert found["same bits"] is True
    assert found["continued from step"][-1] > 0
    subprocess.run(command, env=environment() | {"RELPOS_RUNS": str(tmp_path / "second")}, check=True)
    again = json.loads((tmp_path / "out" / "real.json").read_text(encoding="utf-8"))
    starts = {name: len(run["starts"]) for name, run in again["runs"].items()}
    assert {starts[name] for name in found["carried"]} == {1}


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
