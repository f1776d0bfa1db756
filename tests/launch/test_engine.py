"""The local engine with real processes: interrupted, killed, continued; nothing done twice."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from relpos.runs.run import read_record
from tables.small_data import records, write_data, write_experiment

pytestmark = pytest.mark.usefixtures("python")
PATIENCE = 400.0  # a busy machine takes a minute over the imports of each worker


class Table:
    """`relpos reproduce` on the small experiment, in a folder of its own."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.root = folder / "runs"
        self.file = write_experiment(folder, **changes)
        self.environment = os.environ | {
            "RELPOS_RUNS": str(self.root),
            "RELPOS_DATA": str(folder / "data"),
            "OMP_NUM_THREADS": "1",
        }

    def start(self, *overrides: str, workers: int = 2) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "relpos.cli", "reproduce", f"table={self.file}"]
        return subprocess.Popen(
            [*command, f"workers={workers}", *overrides],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *overrides: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*overrides)
        stdout, stderr = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    @property
    def folder(self) -> Path:
        return self.root / "tables/small"

    def times(self) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in self.root.rglob("record.json")}

    def training(self) -> Iterator[int]:
        """The processes that are in the middle of a pre-training and have logged a step."""
        for path in (self.root / "pretrain").glob("*/metrics.jsonl"):
            begun = path.stat().st_size and list(path.parent.glob("checkpoint/last-*"))
            record = read_record(path.parent)
            if begun and record.state == "running":
                yield record.starts[-1]["pid"]


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.full
def test_a_table_is_finished_after_interrupts_kills_and_failures(tmp_path):
    """One table through everything, because each launch pays for the imports of its workers."""
    write_data(tmp_path / "data")
    pretrain = ["steps=120", "batch=8", "checkpoint_every=5", "log_every=5", "evaluations=1"]
    stages = {"pretrain": pretrain, "finetune": ["steps=3", "intermediate=none"]}
    # there is no WNLI in the data
    table = Table(tmp_path, stages=stages, tasks=["wnli", "cola", "rte"])

    launcher = table.start(workers=1)
    workers = wait_for(lambda: list(table.training()))
    launcher.send_signal(signal.SIGINT)
    stdout, stderr = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 130, stderr
    assert "interrupted; the same command goes on from here" in stderr
    assert not any(is_alive(worker) for worker in workers)
    assert any(record["state"] == "interrupted" for record in records(table.root, "pretrain"))

    launcher = table.start()
    victim = wait_for(lambda: next(table.training(), None))
    os.kill(victim, signal.SIGKILL)
    stdout, stderr = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 1, stderr
    lines = stderr.splitlines()
    assert lines[-1] == "relpos: 2 of 10 runs failed; the same command tries them again"
    assert sum(line.startswith("relpos: finetune wnli-") and "WNLI" in line for line in lines) == 2
    assert "Traceback" not in stderr
    assert stdout.splitlines()[-1] == str(table.folder)
    starts = [record["starts"] for record in records(table.root, "pretrain")]
    assert max(len(own) for own in starts) >= 2
    # absent: killed before training began
    assert all(start.get("from_step", 1) > 0 for own in starts for start in own[1:])
    for row in json.loads((table.folder / "table.json").read_text(encoding="utf-8"))["rows"]:
        assert row["columns"]["wnli"]["n_failed"] == 1
        assert row["columns"]["wnli"]["mean"] is None
        assert [row["columns"][task]["examples"] for task in ("cola", "rte")] == [20, 20]

    again = Table(tmp_path, stages=stages)  # without WNLI, all is there
    written = again.times()
    ended = again.run()
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""  # no worker was started
    assert again.times() == written

    # the other row is whole, so its inputs are no part of the launch
    lost = next((table.root / "finetune").glob("rte-*"))
    shutil.rmtree(lost)
    ended = again.run()
    assert ended.returncode == 0, ended.stderr
    assert set(again.times()) == set(written)
    assert {path for path, time in again.times().items() if time != written[path]} == {
        lost / "record.json"
    }


def test_a_dry_run_needs_no_data_and_writes_nothing(tmp_path):
    table = Table(tmp_path)
    ended = table.run("dry_run=true")
    assert ended.returncode == 0, ended.stderr
    assert "small: 8 runs: 8 missing" in ended.stdout
    assert "data.corpus: there is no folder or file" in ended.stdout
    assert not table.root.exists()
