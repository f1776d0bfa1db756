"""What a training says when the GPU's memory was too small. The step that runs out of it is made up."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from relpos.cli import main
from relpos.errors import RelposError
from relpos.runs import compose, plan
from relpos.train.pretrain import Pretraining
from relpos.train.room import explained_memory

TINY = ["size=tiny", "size.layers=1", "steps=2", "batch=8", "data.pairs=64"]


def out_of_memory(*_: Any) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nSee documentation for more.")


@pytest.mark.usefixtures("toy_runs")
def test_a_pretraining_says_in_one_line_which_micro_batch_to_try(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Pretraining, "training_step", out_of_memory)
    overrides = [*TINY, "evaluations=1", "speed.microbatch=6"]
    assert main(["pretrain", *overrides]) == 1
    line = "out of memory on the GPU with speed.microbatch=6; try speed.microbatch=3"
    assert capsys.readouterr().err.splitlines()[-1] == f"relpos: {line}"
    record = plan(compose("pretrain", overrides)).record
    assert (record["state"], record["error"]) == ("failed", line)


def test_a_micro_batch_of_more_than_the_batch_is_not_what_ran_out() -> None:
    with pytest.raises(RelposError, match="speed.microbatch=8; try speed.microbatch=4"), explained_memory(64, 8):
        out_of_memory()


def test_where_one_example_is_too_much_a_smaller_network_is_named() -> None:
    with pytest.raises(RelposError, match="a single example in a forward pass"), explained_memory(1, 32):
        out_of_memory()
