"""Real processes compute the same steps as one, to rounding; a run goes on with another number."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from linked import link_runs
from relpos.config.compose import compose
from relpos.errors import RelposError
from relpos.runs import distributed
from relpos.runs.distributed import Place, launch, place, reserved_port
from relpos.runs.execute import execute
from relpos.runs.lock import locked
from relpos.runs.plan import plan
from relpos.runs.run import Run, read_record
from relpos.runs.shelf import logged
from relpos.train import group

pytestmark = pytest.mark.usefixtures("python")
OVERRIDES = [
    "batch=8",
    "speed.microbatch=1",
    "position=composite",
    "recipe.warmup=5",
    "log_every=10",
    "evaluations=1",
]
OVERRIDES += ["data.pairs=500"]
TWENTY = [*OVERRIDES, "steps=20", "snapshots=[1]"]
TELLING = (
    "import os, sys; from relpos.cli import main; print(os.getpid(), flush=True); sys.exit(main())"
)
HANGING = """
import ctypes, os, sys
from relpos.train import group
group.SOON, rank, hanging = 1.0, int(sys.argv[1]), int(sys.argv[2])
here = group.join(rank, 3, rank, "cpu")
here.sums([1.0])
if rank == hanging:
    ctypes.PyDLL(None).sleep(300)  # in C, with the interpreter's lock: no thread of this process goes on
try:
    here.sums([1.0], 6)
except group.Broken as error:
    print(f"Broken: {error}", file=sys.stderr, flush=True)
    if rank == 0:
        sys.stdin.read()  # it keeps the store until the other one has ended
    os._exit(0)
"""


def own_root(toy_runs: Path, name: str) -> Path:
    """A folder for runs in which the toy's data are there."""
    root = toy_runs.parent / name
    link_runs(toy_runs, root)
    return root


def flat(path: Path) -> torch.Tensor:
    weights = load_file(path)
    return torch.cat([weights[name].flatten().double() for name in sorted(weights)])


def distance(path: Path, other: Path) -> float:
    return float((flat(path) - flat(other)).norm())


def column(folder: Path, key: str) -> list[float]:
    return [line[key] for line in logged(folder) if key in line]


def in_groups(groups: list[dict[str, Any]]) -> list[Path]:
    """The run's folder of each group, see ranks.py."""
    script = Path(__file__).with_name("ranks.py")
    command = [sys.executable, str(script), json.dumps({"groups": groups})]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    return [Path(line) for line in done.stdout.splitlines()]


def start(overrides: list[str], *how: str) -> subprocess.Popen[str]:
    command = [sys.executable, *how, "pretrain", *overrides]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )


@pytest.mark.full
@pytest.mark.slow
def test_several_processes_compute_the_same_steps_as_one(toy_runs):
    dials: dict[str, tuple[list[str], tuple[int, ...]]] = {
        "dropout": ([], (1, 4)),  # the one that is stopped has 3, and goes on with 2
        "drawn": (["position=randomized"], (1, 2)),
    }
    groups = [
        {
            "world": world,
            "root": str(own_root(toy_runs, f"{name}{world}")),
            "overrides": [*TWENTY, *more],
        }
        for name, (more, worlds) in dials.items()
        for world in worlds
    ]
    stopped = {
        "root": str(own_root(toy_runs, "stopped")),
        "overrides": [*TWENTY, "checkpoint_every=3"],
    }
    folders = in_groups([*groups, stopped | {"world": 3, "stop": True}, stopped | {"world": 2}])
    in_order = iter(folders)
    compared = [[next(in_order) for _ in worlds] for _, worlds in dials.values()]
    for alone, *others in (*compared, [folders[0], folders[-1]]):
        # The first step's learning rate is 0: the snapshot after it holds the initial weights.
        travelled = distance(
            alone / "model" / "model.safetensors", alone / "snapshots" / "1.safetensors"
        )
        assert travelled > 0.5
        for other in others:
            weights = (folder / "model" / "model.safetensors" for folder in (other, alone))
            assert distance(*weights) <= 1e-3 * travelled
            assert column(other, "heldout_loss") == pytest.approx(
                column(alone, "heldout_loss"), abs=1e-3
            )
            for key in ("loss", "accuracy", "gradient_norm"):
                assert column(other, key) == pytest.approx(column(alone, key), abs=2e-3)
    starts = [read_record(folder).starts for folder in folders]
    assert [[start["processes"] for start in several] for several in starts] == [
        *([group["world"]] for group in groups),
        *([3, 2], [3, 2]),
    ]
    assert 3 <= starts[-1][1]["from_step"] < 20


def two_processes(overrides: list[str]) -> tuple[Run, Any, list[int]]:
    """A training in two processes that has written a checkpoint: the run, the launcher, and the ids
    of the processes."""
    run = plan(compose("pretrain", overrides))
    launcher = start([*overrides, "speed.devices=2"], "-c", TELLING)
    pid = int(launcher.stdout.readline())
    while not list((run.path / "checkpoint").glob("last-*.ckpt")):
        assert launcher.poll() is None, launcher.communicate()[1]
        time.sleep(0.01)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return run, launcher, [int(rank) for rank in children.split()]


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_lost_process_fails_the_run_and_one_process_goes_on(number, toy_runs):
    overrides = [*OVERRIDES, "steps=100", "batch=2", "checkpoint_every=2", f"seed={int(number)}"]
    run, launcher, ranks = two_processes(overrides)
    os.kill(ranks[1], number)
    stderr = launcher.communicate(timeout=400)[1]
    assert launcher.returncode == 1, stderr
    assert "another process of this run has ended" in stderr.splitlines()[-1]
    assert stderr.splitlines()[-1].endswith(f"; process 1 with {number.name}")
    assert run.state == "failed"
    assert execute(run).state == "finished"
    starts = run.record["starts"]
    assert [start["processes"] for start in starts] == [2, 1]
    assert starts[1]["from_step"] >= 2


@pytest.mark.full
@pytest.mark.parametrize(("hanging", "waiting"), [(1, (2, 0)), (0, (2, 1))])
def test_waiting_processes_name_the_one_that_hangs_and_give_it_up(hanging, waiting):
    """One hangs, which may be the first, who keeps the store; two wait for it."""
    with reserved_port() as port:
        environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        command = [sys.executable, "-c", HANGING]
        streams = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
        ranks = [
            subprocess.Popen([*command, rank, str(hanging)], text=True, env=environment, **streams)
            for rank in "012"
        ]  # type: ignore[call-overload]
        texts = [ranks[rank].communicate(timeout=400)[1] for rank in waiting]
        ranks[hanging].kill()
        ranks[hanging].communicate()
    for rank, text in zip(waiting, texts, strict=True):
        assert f"relpos: process {rank} of 3 waits for process {hanging}, 0 minutes at most" in text
        assert f"Broken: process {hanging} of this run has been silent for 0 minutes" in text


@pytest.mark.full  # a process of its own, and no fork that answers for it, has to be stopped
@pytest.mark.slow
def test_a_process_that_somebody_has_stopped_does_not_keep_the_command_from_ending(toy_runs):
    overrides = [*OVERRIDES, "steps=5000", "batch=2", "checkpoint_every=2"]
    run, launcher, ranks = two_processes(overrides)
    os.kill(ranks[1], signal.SIGSTOP)
    for line in launcher.stderr:
        if "process 0 of 2 waits for process 1, " in line:
            break
    launcher.send_signal(signal.SIGTERM)
    stderr = launcher.communicate(timeout=400)[1]
    assert launcher.returncode == 128 + signal.SIGTERM, stderr
    assert run.state == "interrupted"


@pytest.mark.full  # three processes that import torch
def test_torchrun_starts_the_processes_of_a_run(toy_runs):
    overrides = [*OVERRIDES, "steps=2"]
    done = start(
        overrides,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "-m",
        "relpos.cli",
    )
    stderr = done.communicate(timeout=400)[1]
    assert done.returncode == 0, stderr
    assert [
        start["processes"] for start in plan(compose("pretrain", overrides)).record["starts"]
    ] == [2]


def test_the_port_where_processes_will_meet_is_given_to_nobody_else():
    with reserved_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        store = torch.distributed.TCPStore("127.0.0.1", port, 1, is_master=True)
        store.set("here", "1")
        assert store.get("here") == b"1"


def train(*more: str) -> None:
    execute(plan(compose("pretrain", [*OVERRIDES, "steps=1", *more])))


def test_another_number_of_processes_than_asked_for_is_refused(toy_runs, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RelposError, match="ask for 3 processes, but 2 were started"):
        train("speed.devices=3")


def test_a_waiting_process_names_the_missing_ones_and_the_time(toy_runs, monkeypatch, capfd):
    """Plain `srun -n 4` of which one process alone comes, as srun sets its variables."""
    variables = {
        "STEP_NUM_TASKS": 4,
        "NTASKS": 4,
        "PROCID": 0,
        "LOCALID": 0,
        "NODEID": 0,
        "JOB_ID": 4711,
        "NODELIST": "localhost",
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(group, "MEETING", 1.0)
    monkeypatch.setattr(group, "SOON", 0.1)
    with pytest.raises(
        RelposError,
        match=r"process 0 of 4 waits at localhost:19711 for 1, 2, 3: not there after 1 seconds",
    ):
        train()
    assert (
        "process 0 of 4 waits at localhost:19711 for the others, 1 seconds at most"
        in capfd.readouterr().err
    )
    monkeypatch.setenv("SLURM_PROCID", "3")
    with pytest.raises(
        RelposError,
        match=r"process 3 of 4 waits at localhost:19711 for process 0: none after 1 seconds",
    ):
        train()


@pytest.mark.parametrize(("variables", "expected"), [
    ({"WORLD_SIZE": "", "RANK": "0"}, None),
    ({"WORLD_SIZE": "4", "RANK": ""}, None),
    ({"WORLD_SIZE": " 4", "RANK": "1"}, (1, 4, 0)),
    ({"SLURM_STEP_NUM_TASKS": "", "SLURM_PROCID": "0"}, None),
    ({"WORLD_SIZE": "1", "RANK": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "SLURM_LOCALID": "1"}, (1, 2, 1)),
])  # fmt: skip
def test_variables_that_are_empty_are_not_set(variables, expected):
    assert place(variables) == (Place(*expected) if expected else None)


@pytest.mark.parametrize("variables", [
    {"WORLD_SIZE": "abc", "RANK": "0"}, {"WORLD_SIZE": "2", "RANK": "-1"}, {"WORLD_SIZE": "2", "RANK": "2"}, {"WORLD_SIZE": "2.5"},
    {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "x"}, {"SLURM_STEP_NUM_TASKS": "4(x2)", "SLURM_PROCID": "0"},
    {"WORLD_SIZE": "4000000000", "RANK": "0"},
])  # fmt: skip
def test_variables_that_make_no_sense_are_one_line(variables):
    with pytest.raises(
        RelposError, match="whole number (up to 100,000 )?is expected|counted from 0"
    ):
        place(variables)


def test_a_port_that_there_cannot_be_is_one_line(monkeypatch):
    monkeypatch.setenv("MASTER_PORT", "99999")
    with pytest.raises(
        RelposError, match="^MASTER_PORT=99999: a whole number up to 65,535 is expected"
    ):
        group.join(1, 2, 1, "cpu")


def test_several_nodes_need_a_meeting_place(toy_runs):
    with pytest.raises(
        RelposError, match="speed.nodes=2: start the command on every node with torchrun or srun"
    ):
        train("speed.nodes=2")


def test_processes_are_no_part_of_the_identity():
    run, parallel = (
        plan(compose("pretrain", overrides))
        for overrides in ([], ["speed.devices=2", "speed.nodes=2"])
    )
    assert run.identity == parallel.identity


def dying(run: Run, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """The processes of a run do this instead."""
    real = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, **how: real([sys.executable, "-c", body], **how)
    )
    launch(run)


def test_processes_that_die_at_once_leave_a_reason(toy_runs, monkeypatch):
    run = plan(compose("pretrain", ["speed.devices=2"]))
    run.path.mkdir(parents=True)
    # more than a pipe holds: writing it breaks
    monkeypatch.setattr(distributed, "asdict", lambda _: {"long": "x" * 1_000_000})
    with pytest.raises(
        RelposError, match=r"its processes ended: 0 with status 3, 1 with status 3$"
    ):
        dying(run, monkeypatch, "raise SystemExit(3)")
    run.update(state="running", error=None)
    # another process has taken it up
    with locked(run.path), pytest.raises(RelposError, match="its processes ended"):
        dying(run, monkeypatch, "raise SystemExit(3)")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "sys.exit(1)", "0 with SIGSEGV, 1 with status 1"),
        ("ctypes.PyDLL(None).sleep(600)", "sys.exit(1)", "0 hung and was killed, 1 with status 1"),
    ],
)
def test_a_process_that_crashes_or_hangs_with_its_interpreter_is_told_in_one_line(
    first, second, message, toy_runs, monkeypatch
):
    run = plan(compose("pretrain", ["speed.devices=2"]))
    run.update(state="running", starts=[{}])
    monkeypatch.setattr(distributed, "PATIENCE", 0.5)
    body = f"import ctypes, os, signal, sys\n{first} if os.environ['RANK'] == '0' else {second}"
    with pytest.raises(RelposError, match=f"^its processes ended: {message}$"):
        dying(run, monkeypatch, body)
    assert (run.state, run.record["error"]) == ("failed", f"its processes ended: {message}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_processes_that_hang_are_killed_and_the_run_is_interrupted(number, toy_runs, monkeypatch):
    """After a time; after a second Ctrl-C at once."""
    run = plan(compose("pretrain", ["speed.devices=2"]))
    run.update(state="running", starts=[{}])
    monkeypatch.setattr(distributed, "STOPPING", 0.2 if number == signal.SIGTERM else 600.0)
    watch = distributed._watch

    def stopped(ranks: list[Any], so_far: list[int]) -> list[int]:
        for _ in range(1 if number == signal.SIGTERM else 2):
            signal.raise_signal(number)
        return watch(ranks, so_far)

    monkeypatch.setattr(distributed, "_watch", stopped)
    with pytest.raises(KeyboardInterrupt):
        dying(
            run,
            monkeypatch,
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
        )
    assert (run.state, run.record["starts"][-1]["ended"]) == ("interrupted", "interrupted")


def test_processes_that_were_asked_to_stop_leave_an_interrupted_run(toy_runs, monkeypatch):
    run = plan(compose("pretrain", ["speed.devices=2"]))
    run.update(state="interrupted")
    with pytest.raises(KeyboardInterrupt):
        dying(run, monkeypatch, "pass")
