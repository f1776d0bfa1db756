"""The rows of a task are read and encoded once for all seeds of it that a process trains."""

from collections.abc import Callable

import pytest

import relpos
from relpos.data.task_batches import encode
from relpos.train import finetune


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often rows were encoded."""
    calls: list[int] = []
    finetune.kept_rows.cache_clear()
    monkeypatch.setattr(
        finetune, "encode", lambda rows, *rest: (calls.append(1), encode(rows, *rest))[1]
    )
    return lambda: len(calls)


def test_another_seed_of_a_task_reads_nothing_again_and_another_task_does(toy_runs, encoded):
    pretrained = relpos.run(
        relpos.compose("pretrain", ["steps=1", "batch=8", "evaluations=1", "data.pairs=64"])
    )
    overrides = ["intermediate=none", "steps=1", f"network={pretrained.path}"]
    relpos.run(relpos.compose("finetune", ["task=rte", "seed=1", *overrides]))
    first = encoded()
    relpos.run(relpos.compose("finetune", ["task=rte", "seed=2", *overrides]))
    assert encoded() == first > 0
    relpos.run(relpos.compose("finetune", ["task=cola", "seed=1", *overrides]))
    assert encoded() > first
