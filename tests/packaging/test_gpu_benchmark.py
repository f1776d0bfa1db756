"""The benchmark for GPUs runs from end to end on a CPU, at toy sizes, so that it is whole when there is a GPU."""

import importlib
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from linked import link_runs
from tables.small_data import write_data, write_experiment

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


def test_tasks_side_by_side_survive_what_aborts_one_of_them(gpu: ModuleType) -> None:
    workers = importlib.import_module("_workers")

    def wrong() -> dict[str, Any]:
        raise ValueError("off by 2\nand more")

    tasks: dict[str, Any] = {"killed": lambda: os.kill(os.getpid(), 9), "wrong": wrong}
    tasks |= {f"right {number}": lambda number=number: {"number": number} for number in range(5)}
    found = dict(workers.side_by_side(tasks, 2, 600))
    assert [found[f"right {number}"]["number"] for number in range(5)] == list(range(5))
    faults = {name: result["fault"] for name, result in found.items() if "fault" in result}
    assert faults == {"killed": "its process ended with -9", "wrong": "ValueError: off by 2"}
    assert list(workers.side_by_side({"stays": lambda: time.sleep(600)}, 1, 0.5)) == [("stays", {"fault": "unfinished"})]


@pytest.mark.full
def test_what_is_right_is_rehearsed_without_a_gpu(gpu: ModuleType, python: str, tmp_path: Path) -> None:
    command = [python, BENCHMARKS / "gpu_correct.py", "--rehearse", "--out", tmp_path, "--only", "terms D", "same bits", "=tisa"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert "| D, bfloat16 | triton |" in done.stdout
    assert "the same bits, composite: 3 times" in done.stdout
    found = json.loads((tmp_path / "correct.json").read_text(encoding="utf-8"))
    assert found["train position=tisa"]["losses"]


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


def test_the_kernel_gets_other_tiles_where_a_variant_has_some(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = importlib.import_module("gpu_tiles")
    monkeypatch.setattr(tiles.triton, "_tiles", tiles.tiled(tiles.Tiles(16, 256), True))
    assert tiles.triton._whole(256, 2)


@pytest.mark.full
def test_variants_of_tiles_are_rehearsed(gpu: ModuleType, python: str, tmp_path: Path) -> None:
    subprocess.run([python, BENCHMARKS / "gpu_tiles.py", "--rehearse", "--out", tmp_path], env=environment(), check=True)
    found = json.loads((tmp_path / "gpu_tiles.json").read_text(encoding="utf-8"))
    assert found.keys() == {"attention, now", "norms, now", "GELU, now", "cross-entropy, now"}


@pytest.mark.full
def test_a_table_goes_on_round_by_round_and_carries_no_weights(python: str, tmp_path: Path) -> None:
    write_data(tmp_path / "data")
    table, out = write_experiment(tmp_path, pretrain_seeds=[0, 1], tasks=[]), tmp_path / "out"
    command = [python, BENCHMARKS / "gpu_real.py", "--table", table, "--out", out]
    subprocess.run(
        command, env=environment() | {"RELPOS_RUNS": str(tmp_path / "runs"), "RELPOS_DATA": str(tmp_path / "data")}, check=True
    )
    found = json.loads((out / "real.json").read_text(encoding="utf-8"))
    assert [found[f"{table}, {seeds} of 2"]["ended"] for seeds in (1, 2)] == [0, 0]
    with tarfile.open(out / "carry.0") as packed:
        names = packed.getnames()
    assert len([name for name in names if name.startswith("pretrain/") and name.endswith("record.json")]) == 4
    assert not [name for name in names if name.endswith(".ckpt")]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}


FAKE = """#!/bin/sh
echo "$@" >>"$TOLD"
case "$*" in *gpu.py*) exit 3 ;; esac
"""


def test_a_session_does_what_it_is_asked_for_and_tells_of_failures(tmp_path: Path) -> None:
    python, told, out = tmp_path / "python", tmp_path / "told", tmp_path / "out"
    python.write_text(FAKE, encoding="utf-8")
    python.chmod(0o755)

    def session(*parts: str) -> int:
        told.write_text("", encoding="utf-8")
        command = ["bash", BENCHMARKS / "gpu_session.sh", *parts]
        names = {"PYTHON": python, "TOLD": told, "OUT": out, "PATH": "/usr/bin:/bin", "CORRECT": "20"}
        return subprocess.run(command, env=names, capture_output=True, check=False).returncode

    assert session() == 1
    assert told.read_text(encoding="utf-8").splitlines() == [
        f"benchmarks/gpu_correct.py --seconds 8 --out {out}",
        f"benchmarks/gpu.py --seconds 125 --out {out} --resume",
        f"benchmarks/gpu_real.py --seconds 435 --out {out}",
    ]
    assert session("correct") == 0
    assert session("order") == 0
    assert told.read_text(encoding="utf-8") == f"benchmarks/gpu_real.py --seconds 695 --out {out} --table when_order_small\n"
    assert session("train") == 1
