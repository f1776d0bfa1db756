"""What a training says when the GPU's memory was too small. The step that runs out of it is made
up."""

from typing import Any

import pytest
import torch

import relpos
from relpos.cli import main
from relpos.config.compose import compose
from relpos.errors import RelposError
from relpos.model.encoder import encoder_of
from relpos.runs.execute import execute
from relpos.runs.plan import plan
from relpos.train import room
from relpos.train.pretrain import Pretraining
from relpos.train.room import explained_memory, fitting_microbatch

TINY = ["size=tiny", "size.layers=1", "steps=2", "batch=8", "data.pairs=64"]


def out_of_memory(*_: Any) -> None:
    raise torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB.\nSee documentation for more."
    )


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("toy_runs")
def test_a_pretraining_says_in_one_line_which_micro_batch_to_try(monkeypatch, capsys):
    monkeypatch.setattr(Pretraining, "training_step", out_of_memory)
    overrides = [*TINY, "evaluations=1", "speed.microbatch=6"]
    assert main(["pretrain", *overrides]) == 1
    line = "out of memory on the GPU with speed.microbatch=6; try speed.microbatch=3"
    assert capsys.readouterr().err.splitlines()[-1] == f"relpos: {line}"
    record = plan(compose("pretrain", overrides)).record
    assert (record["state"], record["error"]) == ("failed", line)


@pytest.mark.usefixtures("toy_runs")
def test_the_next_try_takes_half_the_micro_batch_that_was_too_much_and_keeps_it(
    monkeypatch, capsys
):
    monkeypatch.setattr(room, "CPU_TOKENS", 8 * 128)
    run = plan(compose("pretrain", [*TINY, "evaluations=1"]))
    for stopped_by in (out_of_memory, out_of_memory, interrupted):
        with monkeypatch.context() as patch:
            patch.setattr(Pretraining, "training_step", stopped_by)
            with pytest.raises((RelposError, KeyboardInterrupt)):
                execute(run)
    execute(run)
    assert [(start["microbatch"], start.get("out_of_memory")) for start in run.record["starts"]] == [
        (8, 8), (4, 4), (2, None), (2, None),
    ]  # fmt: skip
    lines = [line for line in capsys.readouterr().err.splitlines() if "ran out of memory" in line]
    name = f"relpos: {run.name} ran out of memory with speed.microbatch="
    assert lines == [f"{name}8; now 4", f"{name}4; now 2", f"{name}4; now 2"]


def test_the_users_micro_batch_is_taken_even_if_it_was_too_much(toy_runs, monkeypatch):
    for overrides, number in ((["speed.microbatch=8"], 8), (["speed.microbatch=8"], 8), ([], 4)):
        run = plan(compose("pretrain", [*TINY, "evaluations=1", *overrides]))
        with monkeypatch.context() as patch:
            patch.setattr(Pretraining, "training_step", out_of_memory)
            with pytest.raises(RelposError):
                execute(run)
        assert run.record["starts"][-1]["microbatch"] == number


def test_a_micro_batch_of_more_than_the_batch_is_not_what_ran_out():
    sizes: list[int] = []
    with (
        pytest.raises(RelposError, match="speed.microbatch=8; try speed.microbatch=4"),
        explained_memory(64, 8, sizes.append),
    ):
        out_of_memory()
    assert sizes == [8]


def test_where_one_example_is_too_much_a_smaller_network_is_named():
    sizes: list[int] = []
    with (
        pytest.raises(RelposError, match="a single example in a forward pass"),
        explained_memory(1, 32, sizes.append),
    ):
        out_of_memory()


def test_memory_that_an_earlier_run_of_this_process_has_left_is_free(monkeypatch):
    free = [1]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: free.append(1 << 36))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free[-1], 1 << 36))
    encoder = encoder_of(relpos.build(relpos.compose("params", ["size=tiny"])))
    assert fitting_microbatch(encoder, 128, "auto") > fitting_microbatch(encoder, 128, "cpu")
