"""Runs of several lengths share their first steps, and each ends in the bits of a training of its
own."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from linked import link_runs
from pretend import bare
from relpos.config.compose import compose
from relpos.runs import trunk
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.runs.run import Run
from relpos.runs.shelf import logged
from relpos.stages.pretrain import PretrainStage

WSD = [
    "position=composite",
    "batch=4",
    "log_every=1",
    "evaluations=2",
    "speed.threads=1",
    "recipe.schedule=wsd",
    "recipe.warmup=2",
]


def _last_constant_step(run: Run) -> int | None:
    assert isinstance(run, PretrainStage)
    return run.last_constant_step()


def run_of(*overrides: str) -> Run:
    return plan(compose("pretrain", [*WSD, *overrides]))


@pytest.fixture(scope="module")
def _trained(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ten_steps")
    link_runs(prepared, root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELPOS_RUNS", str(root))
        return execute(run_of("steps=10")).path


@pytest.fixture
def short(_trained: Path, toy_runs: Path) -> Run:
    """A finished run of ten steps, which keeps a trunk."""
    shutil.copytree(_trained, toy_runs / "pretrain" / _trained.name)
    return run_of("steps=10")


def weights(run: Run) -> dict[str, torch.Tensor]:
    return load_file(run.path / "model" / "model.safetensors")


def steps_logged(run: Run) -> list[int]:
    return [line["step"] for line in logged(run.path) if "loss" in line]


def test_a_longer_run_begins_where_a_shorter_one_began_to_decay_and_ends_in_the_same_bits(
    short, toy_runs, tmp_path, monkeypatch
):
    long = execute(run_of("steps=20"))
    assert [start["from_step"] for start in short.record["starts"]] == [0]
    (start,) = long.record["starts"]
    assert (start["from_step"], start["trunk_of"]) == (8, short.path.name)
    heldout = long.metrics["heldout_loss"]
    assert steps_logged(long) == list(range(1, 21))
    ours, of_short = weights(long), weights(short)
    monkeypatch.setenv("RELPOS_RUNS", str(tmp_path / "alone"))
    link_runs(toy_runs, tmp_path / "alone")
    alone = execute(run_of("steps=20"))
    assert alone.record["starts"][0]["from_step"] == 0
    assert alone.identity == long.identity
    assert alone.metrics["heldout_loss"] == heldout
    theirs = weights(alone)
    assert all(torch.equal(ours[name], theirs[name]) for name in (ours | theirs))
    assert any(not torch.equal(ours[name], of_short[name]) for name in ours)


def shares(*overrides: str, threads: int = 1, microbatch: int | None = None) -> bool:
    """Whether a run that is computed so begins in a trunk; microbatch None: as the run of ten steps
    was."""
    run = run_of(*overrides)
    end = _last_constant_step(run)
    microbatch = microbatch or run_of("steps=10").record["starts"][0]["microbatch"]
    return end is not None and trunk.find(run, end, threads, microbatch) is not None


def test_another_decay_shares_the_trunk(short):
    assert shares("steps=10", "recipe.decay=1")


@pytest.mark.parametrize(
    "change",
    [
        "seed=1",
        "recipe.lr=0.002",
        "recipe.warmup=0.2",
        "recipe.schedule=linear",
        "snapshots=[30]",
        "steps=8",
    ],
)
def test_runs_whose_first_steps_differ_share_no_trunk(short, change):
    assert shares("steps=12")
    assert not shares("steps=12", change)


def test_a_run_that_ends_within_the_warm_up_does_not_begin_behind_its_end(toy_runs):
    longer = execute(run_of("recipe.warmup=4", "steps=5"))
    assert (longer.path / trunk.FOLDER).is_dir()
    for steps in (0, 3):
        within = execute(run_of("recipe.warmup=4", f"steps={steps}"))
        assert [start["from_step"] for start in within.record["starts"]] == [0]
        assert within.metrics["steps"] == steps


def test_runs_that_differ_in_their_last_bits_share_no_trunk(short):
    assert not shares("steps=12", threads=2)
    assert not shares("steps=12", microbatch=2)
    assert execute(run_of("steps=12", "speed.microbatch=2")).record["starts"][0]["from_step"] == 0


@pytest.mark.parametrize(
    "change",
    ["recipe.masking=[0.3,0.15]", "first.share=0.5", "recipe.schedule=linear", "recipe.warmup=0.2"],
)
def test_a_run_whose_first_steps_depend_on_their_number_keeps_no_trunk(change):
    assert _last_constant_step(run_of("steps=10")) == 8
    assert _last_constant_step(run_of("steps=10", change)) is None


def test_a_run_that_goes_on_with_a_network_keeps_no_trunk():
    run = run_of("steps=10")
    further = replace(
        run, inputs=run.inputs | {"start": bare("given", "another", {}, {}, folder="another")}
    )
    assert _last_constant_step(further) is None


def test_a_damaged_trunk_is_named_and_not_used(short, capfd):
    (kept,) = (short.path / "trunk").glob("*.ckpt")
    kept.write_bytes(kept.read_bytes()[:-1] + b"\0\0")
    assert execute(run_of("steps=20")).record["starts"][0]["from_step"] == 0
    assert f"damaged checkpoint {kept}" in capfd.readouterr().err
