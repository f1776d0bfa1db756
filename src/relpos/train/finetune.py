"""Fine-tuning on one GLUE task: the module, its data, the columns and the predictions for the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from relpos.data.collate import TuningStep, TuningSteps, evaluation_batches
from relpos.data.glue_encoding import Encoded
from relpos.data.tasks import Task
from relpos.errors import RelposError
from relpos.model.heads import Classifier
from relpos.model.precision import autocast
from relpos.model.tokens import Tokens
from relpos.train.metrics import decide, majority, parts, score
from relpos.train.module import Training
from relpos.train.predictions import write_answers, write_predictions
from relpos.train.prefetch import Prefetched
from relpos.train.replay import Inputs
from relpos.train.splits import Splits

EVALUATION_BATCH = {"cpu": 64, "cuda": 1024}
"""Rows of a forward pass without gradients, sorted by length, by device."""


class Finetuning(Training):
    """Cross-entropy, or mean squared error on the raw scores of a regression."""

    model: Classifier

    def __init__(self, task: Task, *args: Any, **keys: Any) -> None:
        super().__init__(*args, **keys)
        self.shown_as = "squared_error" if task.regression else "accuracy"

    def losses(self, batch: Inputs, held: Tokens | None = None) -> tuple[Tensor, Tensor]:
        """The sum of the losses of a micro-batch, and the number of rows predicted right; of a regression its loss again."""
        labels = batch["labels"]
        outputs = self.model(batch["input_ids"], batch["attention_mask"], batch["token_types"], held).float()
        if labels.is_floating_point():
            loss = nn.functional.mse_loss(outputs.squeeze(-1), labels, reduction="sum")
            return loss, loss.detach()
        return nn.functional.cross_entropy(outputs, labels, reduction="sum"), (outputs.detach().argmax(1) == labels).sum()

    def training_step(self, step: TuningStep, _: int) -> None:
        """Sums the gradients of the micro-batches and updates once."""
        # Summed and divided by the rows of the step: micro-batches have different numbers of them.
        for loss, right in self.gradients(step.index, step.microbatches, step.rows):
            self.add(loss=loss / step.rows, right=right)
        self.add(examples=step.rows)
        self.update()
        self.log_step()

    def averages(self, sums: dict[str, float], seconds: float) -> dict[str, float]:
        """Mean loss of the steps, accuracy on the training examples just before their updates (of a regression: squared error),
        examples per second."""
        shown = {self.shown_as: sums["right"] / sums["examples"]}
        return {"loss": sums["loss"] / sums["steps"], **shown, "examples_per_second": sums["examples"] / seconds}


class FinetuningData(pl.LightningDataModule):
    """The training rows of a task, in batches drawn at random.

    Args:
        microbatch: rows of full length in a forward pass.
        few_shapes: for recorded passes; a thread reads the next steps.
    """

    def __init__(self, encoded: Encoded, *, seed: int, batch: int, steps: int, microbatch: int, few_shapes: bool = False) -> None:
        super().__init__()
        self.batches = TuningSteps(encoded, seed, batch, steps, microbatch, few_shapes=few_shapes)

    def train_dataloader(self) -> DataLoader[Any]:
        """Called after a checkpoint is restored, when the trainer knows the step from which to continue."""
        assert self.trainer is not None
        self.batches.start = self.trainer.global_step
        # None: an item is a whole step already, which DataLoader is not to put into a batch.
        return DataLoader(Prefetched(self.batches) if self.batches.few_shapes else self.batches, batch_size=None)


def columns(model: Classifier, task: Task, splits: Splits, precision: str, predictions: Path) -> dict[str, Any]:
    """Scores the dev splits and writes predictions for the test splits that exist.

    The answers on the dev splits are written to a folder `dev` beside the predictions.

    Returns:
        `columns` and `majority`: column → score × 100; `examples`: column → dev rows; `parts`: column → metrics × 100 whose mean
        the score is, by name.
    """
    result: dict[str, Any] = {"columns": {}, "majority": {}, "examples": {}, "parts": {}}
    for column, split in task.dev.items():
        rows = splits[split]
        assert rows.labels is not None
        targets = rows.labels.double().numpy()
        decided = decide(task, outputs(model, rows, precision))
        write_answers(predictions.with_name("dev") / f"{column}.tsv", decided, targets, rows.groups)
        result["columns"][column] = score(task, decided, targets, rows.groups)
        result["majority"][column] = majority(task, targets.tolist(), rows.groups)
        result["examples"][column] = len(rows)
        if found := parts(task, decided, targets, rows.groups):
            result["parts"][column] = found
    for name, split in task.test.items():
        # GLUE has test sets without labels for the server; a task of one's own need not.
        if split in splits:
            rows = splits[split]
            write_predictions(predictions, task, name, rows.indices, decide(task, outputs(model, rows, precision)))
    return result


@torch.no_grad()
def outputs(model: Classifier, encoded: Encoded, precision: str) -> Tensor:
    """The classifier's outputs (rows, outputs), in the order of the rows.

    Raises:
        RelposError: an output is not a number: training has diverged.
    """
    device = next(model.parameters()).device
    model.eval()
    # Rows come by length, and go back to their places.
    result = torch.empty(len(encoded), model.classifier.out_features, dtype=torch.float64)
    for batch in evaluation_batches(encoded, EVALUATION_BATCH.get(device.type, 64)):
        inputs = (batch[key].to(device) for key in ("input_ids", "attention_mask", "token_types"))
        with autocast(precision, device):
            result[batch["rows"]] = model(*inputs).double().cpu()
    if not np.isfinite(result.numpy()).all():
        raise RelposError("fine-tuning diverged: the outputs are not numbers; try a lower recipe.lr")
    return result
