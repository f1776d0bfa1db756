"""Kill it anywhere: the same call goes on, and the weights are those of the uninterrupted run, bit
for bit."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from interrupted import interrupt
from linked import link_runs
from relpos.config.compose import compose
from relpos.config.schema import Speed
from relpos.errors import RelposError
from relpos.launch.engine import Local
from relpos.launch.jobs import Job, Standing
from relpos.process import ASKED
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.runs.run import Run
from relpos.runs.shelf import logged
from relpos.train.checkpoint import WholeCheckpoints
from relpos.train.checkpoint_files import newest
from relpos.train.pretrain import Pretraining

OVERRIDES = [
    "steps=12",
    "position=composite",
    "batch=8",
    "speed.microbatch=1",
    "checkpoint_every=2",
    "log_every=1",
    "evaluations=2",
]
WHOLE = [
    ["recipe.masking=[0.3,0.15]"],
    ["position=randomized"],
    ["recipe.masking=diffusion"],
    ["size.attention=causal", "block=modern", "training=modern_causal"],
]
PAUSING = """
import sys, time
from relpos.cli import main
from relpos.train.pretrain import Pretraining


def pausing(self, batch, index):
    if batch.index == 5:
        print("in the sixth step", flush=True)
        time.sleep(600)
    step(self, batch, index)


step, Pretraining.training_step = Pretraining.training_step, pausing
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def elsewhere(
    toy_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Lets the runs that follow be made once more, in another folder."""

    def move() -> None:
        monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / "again"))
        link_runs(toy_runs, tmp_path / "again")

    return move


def weights(run: Run) -> dict[str, torch.Tensor]:
    return load_file(run.path / "model" / "model.safetensors")


@pytest.mark.parametrize(
    "more", [[], *(pytest.param(more, marks=pytest.mark.full) for more in WHOLE)]
)
def test_a_run_that_is_killed_and_continued_equals_an_uninterrupted_one(elsewhere, python, more):
    overrides = [*OVERRIDES, *more]
    run = plan(compose("pretrain", overrides))
    process = subprocess.Popen(
        [python, "-c", PAUSING, "pretrain", *overrides], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "in the sixth step\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert run.state == "running"
    execute(run)
    assert [start["from_step"] for start in run.record["starts"]] == [0, 4]
    assert [line["step"] for line in logged(run.path) if "loss" in line] == list(range(1, 13))
    interrupted = weights(run)
    elsewhere()
    whole = weights(execute(plan(compose("pretrain", overrides))))
    assert all(torch.equal(whole[name], interrupted[name]) for name in whole)


def averages(run: Run) -> list[dict[str, float]]:
    return [
        {name: value for name, value in line.items() if not name.endswith("_per_second")}
        for line in logged(run.path)
    ]


def test_a_log_line_is_that_of_all_its_steps_where_the_run_was_interrupted_between(elsewhere):
    overrides = ["steps=8", "batch=8", "log_every=4", "evaluations=1", "speed.microbatch=4"]
    whole = averages(execute(plan(compose("pretrain", overrides))))
    elsewhere()
    run = plan(compose("pretrain", overrides))
    interrupt(run, 2, 3)
    execute(run)
    assert averages(run) == whole


def test_a_run_whose_log_was_deleted_meanwhile_is_not_continued(toy_runs):
    run = plan(compose("pretrain", ["steps=4", "batch=8", "log_every=1", "seed=6"]))
    interrupt(run, 2)
    (run.path / "metrics.jsonl").unlink()
    with pytest.raises(RelposError, match=f"^{run.path}: its log lacks lines"):
        execute(run)


def evaluations(run: Run) -> list[dict[str, float]]:
    return [line for line in logged(run.path) if "heldout_loss" in line]


def test_an_evaluation_that_was_broken_off_at_the_step_of_a_checkpoint_is_made_up_for(
    elsewhere, monkeypatch
):
    overrides = ["steps=8", "batch=8", "checkpoint_every=2", "evaluations=4"]
    whole = execute(plan(compose("pretrain", overrides)))
    elsewhere()
    step = Pretraining.validation_step

    def broken(self: Pretraining, batch: Any, index: int) -> None:
        if self.global_step in left:
            left.remove(self.global_step)
            raise KeyboardInterrupt
        step(self, batch, index)

    monkeypatch.setattr(Pretraining, "validation_step", broken)
    run = plan(compose("pretrain", overrides))
    left = [2, 6, 8]
    while left:
        with pytest.raises(KeyboardInterrupt):
            execute(run)
    execute(run)
    assert [start["from_step"] for start in run.record["starts"]] == [0, 2, 6, 6]
    assert evaluations(run) == evaluations(whole)
    assert run.metrics == whole.metrics


def test_an_evaluation_in_the_log_is_not_made_again(toy_runs, monkeypatch):
    run = plan(
        compose("pretrain", ["steps=4", "batch=8", "checkpoint_every=2", "evaluations=1", "seed=5"])
    )

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    interrupt(run, 4)  # leaves a checkpoint of the last step
    with monkeypatch.context() as patch:
        patch.setattr("relpos.stages.stage.save_model", killed)
        with pytest.raises(KeyboardInterrupt):
            execute(run)
    (evaluation,) = evaluations(run)
    execute(run)
    assert evaluations(run) == [evaluation]
    assert run.metrics["heldout_loss"] == evaluation["heldout_loss"]


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.full)]
)
def test_a_stop_signal_leaves_a_checkpoint(toy_runs, python, number):
    overrides = [*OVERRIDES, "steps=100000", "checkpoint_every=100000"]  # it does not end by itself
    run = plan(compose("pretrain", overrides))
    process = subprocess.Popen(
        [python, "-m", "relpos.cli", "pretrain", *overrides], stderr=subprocess.PIPE, text=True
    )
    while not (run.path / "metrics.jsonl").exists() or not (run.path / "metrics.jsonl").read_text():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    stderr = process.communicate()[1]
    assert process.returncode == 128 + number
    assert stderr.splitlines()[-1] == "relpos: interrupted; the same command goes on from here"
    assert "Traceback" not in stderr
    assert run.state == "interrupted"
    assert list((run.path / "checkpoint").glob("last-*.ckpt"))


def test_a_run_that_is_stopped_at_the_step_of_a_snapshot_has_it(toy_runs):
    run = plan(compose("pretrain", [*OVERRIDES, "steps=4", "snapshots=[50]"]))
    interrupt(run, 2)
    execute(run)
    assert [start["from_step"] for start in run.record["starts"]] == [0, 2]
    stopped = load_file(run.path / "snapshots" / "50.safetensors")
    shutil.rmtree(run.path)
    whole = load_file(execute(run).path / "snapshots" / "50.safetensors")
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)


def test_what_a_kill_left_half_written_is_removed_with_the_next_checkpoint(tmp_path):
    for name in (
        ".writing.ckpt.123",
        ".last-0123456789abcdef.ckpt.123",
        "writing.ckpt",
        "last-0123456789abcdef.ckpt",
    ):
        (tmp_path / name).write_bytes(b"half")
    WholeCheckpoints().save_checkpoint({"global_step": 3}, tmp_path / "last.ckpt")
    [left] = tmp_path.iterdir()
    assert newest(tmp_path) == left


def test_the_name_of_a_checkpoint_is_on_disk_before_the_earlier_one_is_deleted(
    tmp_path, monkeypatch
):
    (tmp_path / "last-0123456789abcdef.ckpt").write_bytes(b"earlier")
    flushed: list[int] = []
    flush = os.fsync

    def counting(file: int) -> None:
        if os.fstat(file).st_ino == tmp_path.stat().st_ino:
            flushed.append(len(list(tmp_path.glob("last-*.ckpt"))))
        flush(file)

    monkeypatch.setattr(os, "fsync", counting)
    WholeCheckpoints().save_checkpoint({"global_step": 3}, tmp_path / "last.ckpt")
    assert flushed[-1] == 2


def test_the_checkpoint_is_there_until_the_record_says_finished(toy_runs, monkeypatch):
    run = plan(compose("pretrain", [*OVERRIDES, "steps=1"]))
    (run.path / "checkpoint").mkdir(parents=True)
    (run.path / "checkpoint" / "note").touch()
    there, end = [], Run.end

    def noting(self: Run, state: str, **values: Any) -> None:
        there.append((run.path / "checkpoint" / "note").exists())
        end(self, state, **values)

    monkeypatch.setattr(Run, "end", noting)
    execute(run)
    assert there == [True]
    assert not (run.path / "checkpoint").exists()


def test_a_damaged_checkpoint_is_refused_by_name(toy_runs):
    run = plan(compose("pretrain", OVERRIDES))
    (run.path / "checkpoint").mkdir(parents=True)
    (run.path / "checkpoint" / "last-0123456789abcdef.ckpt").write_bytes(b"not this")
    with pytest.raises(RelposError, match="damaged checkpoint .*last-0123456789abcdef"):
        execute(run)
    assert run.state == "failed"
    assert (run.path / "checkpoint" / "last-0123456789abcdef.ckpt").exists()


def test_a_forged_checkpoint_is_refused_by_name(toy_runs):
    """Its name has its checksum; its content is no checkpoint, or one that ends somewhere."""
    from relpos.readers import sha256

    run = plan(compose("pretrain", [*OVERRIDES, "seed=7"]))
    interrupt(run, 3)
    (checkpoint,) = (run.path / "checkpoint").glob("last-*.ckpt")
    whole = torch.load(checkpoint, weights_only=True)
    forged = [
        b"no archive",
        5,
        {"state_dict": 3},
        whole | {"global_step": "x"},
        whole | {"loops": {}},
        {key: value for key, value in whole.items() if key != "optimizer_states"},
        whole | {"optimizer_states": [{}]},
    ]
    for content in forged:
        checkpoint.write_bytes(content) if isinstance(content, bytes) else torch.save(
            content, checkpoint
        )
        checkpoint = checkpoint.rename(checkpoint.with_name(f"last-{sha256(checkpoint)[:16]}.ckpt"))
        with pytest.raises(
            RelposError, match=f"^damaged checkpoint {checkpoint}: .*; delete it to start anew$"
        ):
            execute(run)


FULL = """
import resource, signal, sys
from relpos.cli import main
from relpos.train.checkpoint import WholeCheckpoints

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
save = WholeCheckpoints.save_checkpoint


def full(self, checkpoint, path, **more):
    if list(path.parent.glob("*.ckpt")):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    save(self, checkpoint, path, **more)


WholeCheckpoints.save_checkpoint = full
sys.exit(main(sys.argv[1:]))
"""


def test_a_full_disk_keeps_the_checkpoint_before(toy_runs, python):
    run = plan(compose("pretrain", OVERRIDES))
    done = subprocess.run(
        [python, "-c", FULL, "pretrain", *OVERRIDES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("relpos: cannot write")
    assert "Traceback" not in done.stderr
    assert len(list((run.path / "checkpoint").iterdir())) == 1
    execute(run)
    assert run.record["starts"][1]["from_step"] == 2


@pytest.mark.parametrize(("asked", "threads"), [(None, 2), (1, 1)], ids=["unasked", "asked"])
def test_a_worker_goes_on_with_the_threads_of_the_record_unless_others_are_asked_for(
    toy_runs, tmp_path, monkeypatch, asked, threads
):
    run = plan(compose("pretrain", ["steps=2", "batch=4", "evaluations=1"]))
    interrupt(replace(run, config=replace(run.config, speed=Speed(threads=2))), 1)
    # A worker of `engine.threads=1` in this process: one that is forked could not compute with two
    # threads.
    monkeypatch.setattr("relpos.launch.engine.started", lambda *_, **__: None)
    engine, standing = Local(workers=1, threads=asked), Standing(Job([run]))
    [environment] = engine.start(standing, tmp_path).environments
    for name in environment.keys() & {ASKED}:
        monkeypatch.setenv(name, environment[name])
    torch.set_num_threads(1)
    execute(run)
    assert [start["threads"] for start in run.record["starts"]] == [2, threads]
