"""A Trainer of the user's own trains what the command trains, with Lightning's own callbacks."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger

import relpos
from relpos.config.compose import called
from relpos.data.objective import IGNORED
from relpos.errors import RelposError
from relpos.train.pretrain import PretrainingData

PRETRAINING = ["size=tiny", "steps=6", "batch=8", "evaluations=3", "log_every=2", "data.pairs=64"]


def trainer(folder: Path, steps: int, *callbacks: pl.Callback) -> pl.Trainer:
    return pl.Trainer(
        max_steps=steps,
        accelerator="cpu",
        val_check_interval=2,
        check_val_every_n_epoch=None,
        log_every_n_steps=2,
        callbacks=list(callbacks),
        logger=CSVLogger(folder),
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )


def test_a_trainer_of_ones_own_ends_in_the_weights_of_the_command(toy_runs, tmp_path):
    cfg = relpos.compose("pretrain", [*PRETRAINING, "position=fixed", "speed.threads=1"])
    checkpoints = ModelCheckpoint(
        tmp_path, monitor="heldout_loss", save_last=True, every_n_train_steps=2
    )
    watching = EarlyStopping("heldout_loss"), LearningRateMonitor(), checkpoints
    module, data = relpos.lightning(cfg)
    trainer(tmp_path, 4, *watching).fit(module, datamodule=data)
    module, data = relpos.lightning(cfg)
    continued = trainer(tmp_path, 6, checkpoints)
    continued.fit(module, datamodule=data, ckpt_path="last")
    run = relpos.run(cfg)
    network, _ = relpos.load(run.path)
    trained: Any = module.model
    for name, weights in network.state_dict().items():
        assert torch.equal(weights, trained.state_dict()[name])
    # Lightning keeps a float32 for its callbacks.
    heldout = float(continued.callback_metrics["heldout_loss"])
    assert heldout == pytest.approx(run.metrics["heldout_loss"], rel=1e-6)
    assert module.result["heldout_loss"] == run.metrics["heldout_loss"]


def test_a_fine_tuning_is_validated_by_the_columns_of_its_task(toy_runs, tmp_path):
    before = [f"pretrain.{override}" for override in ("steps=2", "batch=8")]
    dials = ["task=cola", "size=tiny", "steps=3", "evaluations=1", "data.pairs=64", *before]
    cfg = relpos.compose("finetune", dials)
    module, data = relpos.lightning(cfg)
    own = trainer(tmp_path, module.steps, EarlyStopping("cola", mode="max"))
    own.fit(module, datamodule=data)
    [tested] = own.test(module, data, verbose=False)
    columns = relpos.run(cfg).metrics["columns"]
    assert tested == {name: pytest.approx(value) for name, value in columns.items()}


@pytest.mark.parametrize(
    ("switch", "key"),
    [({"world_size": 2}, r"speed\.devices"), ({"precision": "bf16-mixed"}, "precision=bf16")],
)
def test_trainer_switches_that_relpos_replaces_are_refused_with_its_key(toy_runs, switch, key):
    module, _ = relpos.lightning(relpos.compose("pretrain", PRETRAINING))
    module.trainer = SimpleNamespace(**({"world_size": 1, "precision": "32-true"} | switch))  # type: ignore[assignment]
    with pytest.raises(RelposError, match=key):
        module.setup("fit")


def test_a_configuration_that_trains_nothing_has_no_module():
    with pytest.raises(RelposError, match="trains nothing"):
        relpos.lightning(relpos.compose("data"))


def test_a_unigram_model_has_the_entropy_of_the_pieces(toy_runs):
    _, data = relpos.lightning(relpos.compose("pretrain", PRETRAINING))
    assert isinstance(data, PretrainingData)
    store, labels = (
        data.store,
        torch.cat([batch.labels.flatten() for batch in data.val_dataloader()]),
    )
    labels = labels[labels != IGNORED]
    held = [store.sentences[store.documents[d : d + 2]] for d in np.flatnonzero(store.heldout)]
    counts = np.bincount(store.ids, minlength=store.vocabulary) + 1.0
    for first, last in held:
        counts -= np.bincount(store.ids[first:last], minlength=store.vocabulary)
    expected = -np.log(counts / counts.sum())[labels.numpy()].mean()
    assert data.unigram_loss() == pytest.approx(expected)


def test_a_finished_command_prints_its_result_beside_a_baseline(toy_runs, capsys):
    called("pretrain", PRETRAINING)
    assert re.search(
        r"held-out loss \d\.\d{3}, perplexity [\d.]+; knowing nothing but .*: [\d.]+\n",
        capsys.readouterr().err,
    )
    before = ["pretrain.steps=2", "pretrain.batch=8", "data.pairs=64"]
    called("finetune", ["task=cola", "size=tiny", "steps=3", "evaluations=1", *before])
    (record,) = (json.loads(file.read_text()) for file in toy_runs.glob("finetune/*/record.json"))
    classes = record["metrics"]["classes"]["cola"]
    answers = [label["answers"] for label in classes.values()]
    assert sum(sum(row.values()) for row in answers) == 500
    assert "on 500 dev examples; the constant answer has 0.0" in capsys.readouterr().err


class Pruned(Exception):
    pass


class Pruning(pl.Callback):
    """As Optuna's: reads the figure behind each evaluation, and ends a trial by an exception."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.seen.append(float(trainer.callback_metrics["heldout_loss"]))
        if len(self.seen) == 2:
            raise Pruned


def test_a_callback_prunes_a_trial_by_the_held_out_loss(toy_runs, tmp_path):
    module, data = relpos.lightning(relpos.compose("pretrain", PRETRAINING))
    pruning = Pruning()
    own = trainer(tmp_path, module.steps, pruning)
    with pytest.raises(Pruned):
        own.fit(module, datamodule=data)
    assert own.global_step == 4
    assert pruning.seen[1] == pytest.approx(module.result["heldout_loss"])
