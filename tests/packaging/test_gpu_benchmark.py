"""The benchmark for GPUs runs from end to end on a CPU, at toy sizes, so that it is whole when there is a GPU."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from schemes import FULL

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if torch.cuda.is_available():
        pytest.skip("here it would measure")
    pytest.importorskip("transformers")
    pytest.importorskip("triton")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu as module

    return module


@pytest.mark.skipif(not FULL, reason="half a minute: RELPOS_FULL=1")
def test_it_rehearses_without_a_gpu(gpu: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    gpu.main(["--rehearse", "--repeats", "1", "--rows", "2", "--sizes", "tiny", "--only", "position=composite"])
    shown = capsys.readouterr().out
    for row in ("ours position=composite", "Hugging Face compiled", "triton, dropout", "FlexAttention, compiled"):
        assert f"| {row} |" in shown


def test_without_a_gpu_it_refuses_in_one_line(gpu: ModuleType) -> None:
    with pytest.raises(SystemExit, match="needs a CUDA device and there is none"):
        gpu.main([])


@pytest.mark.skipif(not FULL, reason="a process of its own: RELPOS_FULL=1")
def test_the_session_of_a_gpu_refuses_without_one() -> None:
    if torch.cuda.is_available():
        pytest.skip("here it would run")
    done = subprocess.run(
        ["bash", str(BENCHMARKS / "gpu_session.sh")],
        env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin", "OUT": "/dev/null/.."},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "needs a CUDA device" in done.stderr
