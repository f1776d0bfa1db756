"""A table on a real cluster of two nodes (`make test-slurm`) is the table of the local engine, whatever happens to its jobs."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from relpos.runs.lock import locked
from relpos.runs.run import Run
from relpos.tables.experiment import load
from relpos.tables.plan import plan_table, runs_of
from tables.small_data import write_data, write_experiment

pytestmark = pytest.mark.skipif("SLURM_CONF" not in os.environ, reason="make test-slurm starts the cluster that this needs")

RELPOS = str(Path(sys.executable).with_name("relpos"))
PATIENCE = 900.0  # a busy machine takes a minute over the imports of each job
STAGES = {
    "pretrain": ["steps=200", "batch=8", "speed.microbatch=1", "checkpoint_every=10", "log_every=10", "evaluations=1"],
    "finetune": ["steps=20", "intermediate=none"],
}


class Table:
    """`relpos reproduce` on a small experiment, in a folder for runs of its own."""

    def __init__(self, folder: Path, name: str, *overrides: str) -> None:
        self.root, self.overrides = folder / name, overrides
        meeting = {"MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}  # the nodes' names lead nowhere here
        data = {"RELPOS_RUNS": str(self.root), "RELPOS_DATA": str(folder / "data")}
        self.environment = os.environ | meeting | data | {"OMP_NUM_THREADS": "1"}
        self.file = folder / "small.yaml"

    @property
    def command(self) -> list[str]:
        return [RELPOS, "reproduce", f"table={self.file}", *self.overrides]

    def start(self, *before: str) -> subprocess.Popen[str]:
        command = [*before, shlex.join(self.command)] if before else self.command
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def rows(self) -> list[dict[str, Any]]:
        content = json.loads((self.root / "tables" / "small" / "table.json").read_text(encoding="utf-8"))
        keys = ("name", "parameters", "perplexity", "columns", "mean")
        return [{key: row[key] for key in keys} for row in content["rows"]]

    def tasks(self) -> dict[str, str]:
        path = self.root / "tables" / "small" / "slurm.json"
        tasks: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return tasks

    def task_of(self, run: Path) -> str:
        """Of a run of several processes, which have a task for themselves."""
        return next(number for number, identity in self.tasks().items() if run.name.endswith(identity))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slurm")
    write_data(folder / "data")
    write_experiment(folder, stages=STAGES)
    return folder


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def slurm(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


def record(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "record.json").read_text(encoding="utf-8"))
    return content


def in_the_middle(table: Table, name: str) -> Path | None:
    found = [path.parent.parent for path in table.root.glob(f"pretrain/{name}*/checkpoint/last-*")]
    return found[0] if found and record(found[0])["state"] == "running" else None


def test_the_table_of_a_cluster_is_the_local_one(folder: Path) -> None:
    cluster = Table(folder, "cluster", "engine=slurm", "engine.partition=debug", "pretrain.speed.nodes=2")
    launcher = cluster.start()
    killed = wait_for(lambda: in_the_middle(cluster, "none"), launcher)
    job = cluster.task_of(killed)
    assert "NumNodes=2" in slurm("scontrol", "show", "job", job)
    slurm("scontrol", "requeue", job)  # SIGTERM, later SIGKILL, and back into the queue
    warned = wait_for(lambda: in_the_middle(cluster, "fixed"), launcher)
    slurm("scancel", "--signal=USR2", cluster.task_of(warned))  # as before a preemption: the job goes back by itself
    _, said = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 0, said
    for run in (killed, warned):
        starts = record(run)["starts"]
        assert [start["processes"] for start in starts] == [2, 2]
        assert starts[1]["from_step"] > 0
    assert not slurm("squeue", "--noheader")

    local = Table(folder, "local", "workers=1", "pretrain.speed.devices=2")
    launcher = local.start()
    _, said = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 0, said
    assert cluster.rows() == local.rows()
    for path in sorted((cluster.root / "pretrain").glob("*/model/model.safetensors")):
        ours, theirs = load_file(path), load_file(local.root / path.relative_to(cluster.root))
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_stopping_the_launcher_stops_its_jobs_and_the_same_command_goes_on(folder: Path) -> None:
    table = Table(folder, "stopped", "engine=slurm", "rows=[none]", "stages=[pretrain]")
    launcher = table.start()
    run = wait_for(lambda: in_the_middle(table, "none"), launcher)
    launcher.terminate()
    launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 128 + signal.SIGTERM
    assert not slurm("squeue", "--noheader")
    assert record(run)["state"] == "interrupted"
    log = folder / "launcher.log"
    again = table.start("sbatch", "--wait", f"--output={log}", "--wrap")  # the launcher is itself a job
    _, said = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, said + log.read_text(encoding="utf-8")
    assert record(run)["state"] == "finished"
    assert [start["from_step"] > 0 for start in record(run)["starts"]] == [False, True]


def test_a_launch_waits_for_what_somebody_else_holds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(folder, "shared", "engine=slurm", "rows=[none]", "stages=[pretrain]")
    monkeypatch.setenv("RELPOS_RUNS", table.environment["RELPOS_RUNS"])
    monkeypatch.setenv("RELPOS_DATA", table.environment["RELPOS_DATA"])
    runs = runs_of(plan_table(load(str(table.file)), ["none"]))
    held = next(run for run in runs if run.stage == "pretrain")
    others = [run for run in runs if run.stage not in ("pretrain", "finetune")]

    def had_a_task(run: Run) -> bool:
        return run.identity in table.tasks().values()

    with locked(held.path):
        held.update(state="running")
        launcher = table.start()
        wait_for(lambda: all(run.state == "finished" for run in others), launcher)
        wait_for(lambda: not table.tasks(), launcher)  # the launcher has seen that nothing else can be done
        time.sleep(15)  # three looks at the queue
        assert not had_a_task(held)
        assert launcher.poll() is None
    wait_for(lambda: had_a_task(held), launcher)
    _, said = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 0, said
    assert held.state == "finished"
