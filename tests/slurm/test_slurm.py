"""Tables on a real cluster of two nodes (`make test-slurm`), whatever happens to their jobs."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tables.small_data import write_data, write_experiment

pytestmark = pytest.mark.skipif(
    "SLURM_CONF" not in os.environ, reason="make test-slurm starts the cluster that this needs"
)

RELPOS = str(Path(sys.executable).with_name("relpos"))
PATIENCE = 900.0  # a busy machine takes a minute over the imports of each job
STAGES = {
    "pretrain": [
        "steps=200",
        "batch=8",
        "speed.microbatch=1",
        "checkpoint_every=10",
        "log_every=10",
        "evaluations=1",
    ],
    "finetune": ["steps=20", "intermediate=none"],
}


class Table:
    """`relpos reproduce` on a small experiment, in a folder for runs of its own."""

    def __init__(self, folder: Path, name: str, *overrides: str) -> None:
        self.root, self.overrides = folder / name, overrides
        # the nodes' names lead nowhere here
        meeting = {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
        data = {"RELPOS_RUNS": str(self.root), "RELPOS_DATA": str(folder / "data")}
        self.environment = os.environ | meeting | data | {"OMP_NUM_THREADS": "1"}
        self.file = folder / "small.yaml"

    @property
    def command(self) -> list[str]:
        return [RELPOS, "reproduce", f"table={self.file}", *self.overrides]

    def start(self, *before: str) -> subprocess.Popen[str]:
        command = [*before, shlex.join(self.command)] if before else self.command
        return subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def rows(self) -> list[dict[str, Any]]:
        content = json.loads(
            (self.root / "tables" / "small" / "table.json").read_text(encoding="utf-8")
        )
        keys = ("name", "parameters", "perplexity", "columns", "mean")
        return [{key: row[key] for key in keys} for row in content["rows"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slurm")
    write_data(folder / "data")
    write_experiment(folder, stages=STAGES)
    return folder


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (result := condition()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return result


def succeeds(process: subprocess.Popen[str], log: Path | None = None) -> None:
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, stderr + (log.read_text(encoding="utf-8") if log else "")


def slurm(*command: str) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout


def record(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "record.json").read_text(encoding="utf-8"))
    return content


def in_the_middle(table: Table, name: str, besides: Sequence[Path] = ()) -> Path | None:
    for path in table.root.glob(f"pretrain/{name}*/checkpoint/last-*"):
        run = path.parent.parent
        if run not in besides and record(run)["state"] == "running":
            return run
    return None


def process_of(run: Path) -> int:
    return int(record(run)["starts"][-1]["pid"])


def job_of(run: Path) -> str:
    """The Slurm job of a run's first process."""
    variables = Path(f"/proc/{process_of(run)}/environ").read_bytes().decode().split("\0")
    return next(
        variable.partition("=")[2] for variable in variables if variable.startswith("SLURM_JOB_ID=")
    )


def test_an_array_of_launchers_trains_a_table_once_and_takes_over_what_was_killed_or_requeued(
    folder,
):
    table = Table(folder, "array", "engine=slurm", "engine.array=3", "engine.partition=debug")
    launcher = table.start()
    killed = wait_for(lambda: in_the_middle(table, "none"), launcher)
    os.kill(process_of(killed), signal.SIGKILL)
    requeued = wait_for(lambda: in_the_middle(table, "fixed", [killed]), launcher)
    slurm("scontrol", "requeue", job_of(requeued))
    second = Table(folder, "array", "engine=slurm", "engine.array=1").start()
    for process in (launcher, second):
        succeeds(process)
    for run in (killed, requeued):
        # Without those that were over before the first step: a busy machine is slow to end a task.
        steps = [start["from_step"] for start in record(run)["starts"] if "from_step" in start]
        assert (steps[0], steps[-1] > 0, record(run)["state"]) == (0, True, "finished")
    assert record(killed)["starts"][0]["ended"] == "died"
    others = [
        path.parent
        for path in table.root.glob("*/*/record.json")
        if path.parent not in (killed, requeued)
    ]
    assert len(others) > 4
    for run in others:
        assert len(record(run)["starts"]) == 1
    assert not slurm("squeue", "--noheader")


def test_a_run_on_two_nodes_goes_back_into_the_queue_before_the_limit(folder):
    cluster = Table(folder, "cluster", "engine=slurm", "engine.array=1", "pretrain.speed.nodes=2")
    launcher = cluster.start()
    warned = wait_for(lambda: in_the_middle(cluster, "fixed"), launcher)
    job = job_of(warned)
    assert "NumNodes=2" in slurm("scontrol", "show", "job", job)
    slurm("scancel", "--batch", "--signal=USR2", job)  # as Slurm does before the limit
    succeeds(launcher)
    first, second = record(warned)["starts"]
    assert (first["processes"], first["ended"], second["processes"]) == (2, "interrupted", 2)
    assert second["from_step"] > 0

    local = Table(folder, "local", "workers=1", "pretrain.speed.devices=2")
    succeeds(local.start())
    assert cluster.rows() == local.rows()
    for path in sorted((cluster.root / "pretrain").glob("*/model/model.safetensors")):
        ours, theirs = load_file(path), load_file(local.root / path.relative_to(cluster.root))
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_stopping_the_launcher_stops_its_jobs_and_the_same_command_goes_on(folder):
    nodes = "pretrain.speed.nodes=2"
    table = Table(folder, "stopped", "engine=slurm", "rows=[none]", "stages=[pretrain]", nodes)
    launcher = table.start()
    run = wait_for(lambda: in_the_middle(table, "none"), launcher)
    launcher.terminate()
    launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 128 + signal.SIGTERM
    assert not slurm("squeue", "--noheader")
    assert record(run)["state"] == "interrupted"
    log = folder / "launcher.log"
    # the launcher is itself a job
    succeeds(table.start("sbatch", "--wait", f"--output={log}", "--wrap"), log)
    assert record(run)["state"] == "finished"
    assert [start["from_step"] > 0 for start in record(run)["starts"]] == [False, True]
