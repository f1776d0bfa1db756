"""Callbacks and switches of Lightning's: what changes a result is part of the identity."""

import json

import pytest

import relpos
from relpos.errors import RelposError
from relpos.runs.plan import plan
from relpos.trust import refuse

TINY = ["size=tiny", "steps=8", "batch=4", "evaluations=4", "log_every=2", "data.pairs=64"]


def identity(*overrides: str) -> str:
    return plan(relpos.compose("pretrain", [*TINY, *overrides])).identity


@pytest.mark.parametrize(
    "watching",
    [
        "callbacks=[lr_monitor]",
        "trainer.profiler=simple",
        "trainer.detect_anomaly=true",
        "trainer=debug",
    ],
)
def test_callbacks_and_switches_that_only_watch_are_no_part_of_the_identity(watching):
    assert identity(watching) == identity()


@pytest.mark.parametrize(
    "changing",
    [
        "callbacks=[early_stopping]",
        "trainer.overfit_batches=1",
        "trainer.fast_dev_run=true",
    ],
)
def test_callbacks_and_switches_that_change_a_result_are_part_of_the_identity(changing):
    assert identity(changing) != identity()


def test_a_callback_stops_a_training_and_another_logs_its_rates(toy_runs):
    stopping = ["patience=1", "min_delta=5"]
    dials = [f"callbacks.early_stopping.{dial}" for dial in stopping]
    chosen = "callbacks=[early_stopping,lr_monitor]"
    run = relpos.run(relpos.compose("pretrain", [*TINY, chosen, *dials]))
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert run.metrics["steps"] == 4
    assert max(line["step"] for line in lines) == 4
    assert any("lr-AdamW/pg1" in line for line in lines)


def test_a_fine_tuning_stops_by_a_column_of_its_task(toy_runs):
    before = ["pretrain.steps=2", "pretrain.batch=4", "data.pairs=64"]
    dials = ["monitor=cola", "mode=max", "patience=1", "min_delta=200"]
    overrides = ["task=cola", "size=tiny", "steps=8", "batch=4", "evaluations=4", *before]
    stopping = [
        "callbacks=[early_stopping]",
        *(f"callbacks.early_stopping.{dial}" for dial in dials),
    ]
    run = relpos.run(relpos.compose("finetune", [*overrides, *stopping]))
    assert run.metrics["steps"] == 4


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainer.max_steps=3", r"trainer\.max_steps: relpos does this itself; its key is steps"),
        ("trainer.precision=16", "its key is precision"),
        ("callbacks=[early_stoping]", "Did you mean 'early_stopping'"),
        ("callbacks.early_stopping.patience=3", r"key of callbacks=\[?early_stopping"),
        ("trainer.profiler=slow", r"trainer\.profiler=slow"),
    ],
)
def test_a_wrong_switch_is_named_with_the_right_key(override, message):
    with pytest.raises(RelposError, match=message):
        relpos.compose("pretrain", [override])


def test_a_file_may_not_name_a_callback_that_writes_anywhere():
    name = "pytorch_lightning.callbacks.ModelCheckpoint"
    with pytest.raises(RelposError, match=r"callbacks\.mine\._target_"):
        refuse(name, "callbacks", "callbacks.mine._target_")
