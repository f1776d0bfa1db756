"""What the Slurm engine submits and how it ends, with shell scripts in front of the PATH in place
of a cluster."""

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pretend import bare
from relpos.config.compose import compose
from relpos.errors import RelposError
from relpos.launch import slurm, worker
from relpos.launch.jobs import Job, Standing
from relpos.launch.slurm import Slurm, SlurmArray
from relpos.process import handling, interrupt
from relpos.ranges import shown
from relpos.runs.run import Run
from relpos.trust import instantiate

SCRIPTS = {
    "sbatch": 'echo "7;cluster"',
    "squeue": "cat queue",
    "scancel": "> queue",
    "scontrol": ":",
}


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the numbers in `queue`; what is called goes into `calls`."""
    folder = tmp_path / "cluster"
    (folder / "bin").mkdir(parents=True)
    (folder / "queue").write_text("5\n7\n7\n", encoding="utf-8")
    for name, script in SCRIPTS.items():
        path = folder / "bin" / name
        path.write_text(
            f'#!/bin/sh\ncd {folder}\necho "{name} $*" >> calls\n{script}\n', encoding="utf-8"
        )
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=":")
    monkeypatch.setattr(slurm, "PAUSE", 0.0)
    return folder


def calls(cluster: Path) -> list[str]:
    return (cluster / "calls").read_text(encoding="utf-8").splitlines()


def of_seed(seed: int, **speed: int) -> Run:
    return bare(
        "pretrain", f"seed{seed}", {"seed": seed}, {"speed": {"devices": 1, "nodes": 1} | speed}
    )


def start(folder: Path, *runs: Run, **engine: Any) -> SlurmArray:
    return Slurm(**engine).start(Standing(Job([*runs] or [of_seed(0)])), folder)


def options(folder: Path) -> list[str]:
    lines = (folder / "array.sh").read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("#SBATCH --") for line in lines]


def engine_of(*overrides: str) -> Any:
    """`engine=slurm` with these overrides."""
    cfg = compose("reproduce", ["table=demo", "engine=slurm", *overrides])
    return instantiate(cfg.engine, "engine")


def test_an_array_has_the_nodes_of_its_widest_run_and_no_more_tasks_than_runs(tmp_path):
    runs, place = (
        (of_seed(0), of_seed(1, nodes=2, devices=4)),
        {"partition": "long", "account": "lab"},
    )
    start(tmp_path, *runs, **place, time=90, threads=3, gpus=1)
    script = options(tmp_path)
    assert {"nodes=2", "ntasks-per-node=4", "gpus-per-node=4", "cpus-per-task=3"} < set(script)
    assert {"time=90", "array=0-1", "signal=B:USR2@120", "requeue"} < set(script)
    assert {"partition=long", "account=lab"} < set(script)
    assert [line for line in script if line.startswith("export OMP_NUM_THREADS=")]
    assert script[-1].endswith("job.json --slurm")
    start(tmp_path, *map(of_seed, range(5)), array=3)
    assert "array=0-2" in options(tmp_path)


def test_other_options_of_sbatch(tmp_path):
    more = "engine.more={qos: long, exclusive: true, nice: 0}"
    for overrides in (["engine.memory=0", "engine.setup=['module load cuda']", more], []):
        engine_of(*overrides).start(Standing(Job([of_seed(0)])), tmp_path)
        chosen = {"qos=long", "exclusive", "nice=0", "mem=0", "module load cuda"} & set(
            options(tmp_path)
        )
        assert len(chosen) == (5 if overrides else 0)
    text = (tmp_path / "array.sh").read_text(encoding="utf-8")
    assert not [
        name for name in ("partition", "account", "mem", "gpus-per-node", "None") if name in text
    ]


@pytest.mark.parametrize(("key", "value"), [
    ("time", "x"), ("time", None), ("time", 1.5), ("array", 0), ("signal", -1), ("signal", 86400), ("gpus", -1), ("gpus", True),
    ("threads", "two"), ("threads", 0), ("setup", "module load cuda"), ("more", "long"),
])  # fmt: skip
def test_a_wrong_argument_of_slurm_is_named(key, value):
    with pytest.raises(RelposError, match=f"^engine.{key}={shown(value)}: .* expected") as error:
        engine_of(f"engine.{key}={shown(value)}")
    assert len(str(error.value).splitlines()) == 1


def test_a_refusal_of_sbatch_is_one_line(tmp_path, cluster):
    (cluster / "bin/sbatch").write_text(
        "#!/bin/sh\necho 'invalid partition: x\nmore' >&2; exit 1", encoding="utf-8"
    )
    with pytest.raises(RelposError, match="^engine=slurm: sbatch: invalid partition: x$"):
        start(tmp_path)


def test_an_array_that_has_ended_before_its_runs_ends_the_launch(tmp_path, cluster):
    run = of_seed(0)
    array = start(tmp_path, run)
    array.poll()
    (cluster / "queue").unlink()  # squeue fails: nobody knows
    array.poll()
    (cluster / "queue").write_text("5\n77\n", encoding="utf-8")
    with pytest.raises(
        RelposError, match="the tasks of array 7 have ended, and 1 run .* see .*worker-"
    ):
        array.poll()
    run.update(state="finished")
    array.poll()


@pytest.mark.parametrize("error", [None, KeyboardInterrupt(), RelposError("the disk is full")])
def test_tasks_end_with_the_launch_unless_an_error_ends_it(error, tmp_path, cluster, capsys):
    array = start(tmp_path)
    with suppress(RelposError, KeyboardInterrupt):
        try:
            if error:
                raise error
        finally:
            array.shutdown()
    cancelled = [call for call in calls(cluster) if call.startswith("scancel")]
    if isinstance(error, RelposError):
        assert "the same command adds others" in capsys.readouterr().err
        assert not cancelled
    else:
        assert cancelled == [
            "scancel --state=PENDING 7",
            "scancel --batch --signal=TERM 7",
            "scancel 7",
        ]
    assert (tmp_path / "array.sh").exists() is isinstance(error, RelposError)


@pytest.mark.parametrize(
    ("number", "requeued"), [(signal.SIGUSR2, ["scontrol requeue 77"]), (signal.SIGTERM, [])]
)
def test_a_task_goes_back_into_the_queue_before_its_limit(
    number, requeued, tmp_path, cluster, monkeypatch
):
    monkeypatch.setattr(worker, "execute", lambda run, **_: signal.raise_signal(number))
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    (cluster / "calls").touch()
    with handling(interrupt):
        assert worker.main(Job([of_seed(0)]), is_slurm=True) == 128 + number
    assert calls(cluster) == requeued
