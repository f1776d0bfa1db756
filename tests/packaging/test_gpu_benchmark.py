"""The benchmark for GPUs runs from end to end on a CPU, at toy sizes, so that it is whole when there is a GPU."""

import json
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
def test_it_rehearses_without_a_gpu_and_goes_on_where_it_was_stopped(
    gpu: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["--rehearse", "--resume", "--repeats", "1", "--rows", "2", "--sizes", "tiny", "--out", str(tmp_path)]
    attention = gpu.attention
    monkeypatch.setattr(gpu, "attention", stopped)
    with pytest.raises(TimeoutError):
        gpu.main([*asked, "--only", "position=composite"])
    before = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert "ours position=composite" in before["step_tiny"]
    monkeypatch.setattr(gpu, "attention", attention)
    gpu.main([*asked, "--only", "position=composite", "position=rope"])
    shown = capsys.readouterr().out
    for row in ("ours position=rope", "Hugging Face compiled", "position=composite, no graphs", "triton, dropout",
                "FlexAttention, compiled", "DeBERTa's terms, triton"):  # fmt: skip
        assert f"| {row} |" in shown
    assert shown == (tmp_path / "gpu.md").read_text(encoding="utf-8") + "\n"
    after = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert before["step_tiny"].items() <= after["step_tiny"].items()  # nothing is measured twice
    assert before["graphs_16"] == after["graphs_16"]


def stopped(*_: object) -> None:
    raise TimeoutError


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


FAKE = """#!/bin/sh
echo "$@" >>"$TOLD"
case "$*" in
*gpu.py*) test $(grep -c gpu.py "$TOLD") -ge 2 ;;
*pretrain*) mkdir -p "$RELPOS_RUNS/pretrain/x" && echo "{}" >"$RELPOS_RUNS/pretrain/x/metrics.jsonl" ;;
esac
"""


def test_a_session_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    python, told, out = tmp_path / "python", tmp_path / "told", tmp_path / "out"
    python.write_text(FAKE, encoding="utf-8")
    python.chmod(0o755)
    environment = {"PYTHON": python, "TOLD": told, "OUT": out, "TMPDIR": tmp_path, "PATH": "/usr/bin:/bin"}

    def session(*parts: str) -> str:
        told.write_text("", encoding="utf-8")
        command = ["bash", BENCHMARKS / "gpu_session.sh", *parts]
        subprocess.run(command, env=environment, capture_output=True, check=True)
        return told.read_text(encoding="utf-8")

    said = session()
    assert said.count("tests/model/test_triton.py") == 1
    assert said.count("gpu.py") == 2  # stopped once
    assert said.count("relpos.cli pretrain") == 3
    assert {path.name for path in out.glob("*.jsonl")} == {"fast_300.jsonl", "eager_300.jsonl", "long.jsonl"}
    (out / "train_long.done").unlink()
    assert session().count("pretrain") == 1
    assert "pytest" not in session("check")
