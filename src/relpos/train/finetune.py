"""Fine-tuning on one task: the module, the task's splits, the columns of the results, and the
predictions for the GLUE server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.utils.data import DataLoader

from relpos.data.glue import Location, read
from relpos.data.task_batches import (
    Encoded,
    TuningStep,
    TuningSteps,
    encode,
    evaluation_batches,
)
from relpos.data.tasks import Task
from relpos.data.tokenizer import Tokenizer
from relpos.errors import RelposError
from relpos.files import write_text
from relpos.model.encoder import device_of
from relpos.model.heads import Classifier
from relpos.model.precision import autocast
from relpos.model.tokens import Tokens
from relpos.train.metrics import by_class, decide, majority, score
from relpos.train.module import Training
from relpos.train.prefetch import StepsData
from relpos.train.recorded import Inputs

read_of = itemgetter("input_ids", "attention_mask", "token_types")
"""What the network reads of a batch."""
EVALUATION_BATCH = 64
"""Rows of a forward pass without gradients, sorted by length."""


class Finetuning(Training):
    """Cross-entropy, or mean squared error on the raw scores of a regression."""

    model: Classifier

    def __init__(self, task: Task, *args: Any, **keys: Any) -> None:
        super().__init__(*args, **keys)
        self.task = task
        self.shown_as = "squared_error" if task.regression else "accuracy"

    def forward(self, batch: Inputs, held: Tokens | None = None) -> tuple[Tensor, Tensor]:
        """The sum of the losses of a micro-batch, and the number of rows predicted right; of a
        regression its loss again."""
        labels = batch["labels"]
        outputs = self.model(*read_of(batch), held).float()
        if labels.is_floating_point():
            loss = nn.functional.mse_loss(outputs.squeeze(-1), labels, reduction="sum")
            return loss, loss.detach()
        return nn.functional.cross_entropy(outputs, labels, reduction="sum"), (
            outputs.detach().argmax(1) == labels
        ).sum()

    def training_step(self, step: TuningStep, _: int) -> None:
        """Sums the gradients of the micro-batches and updates once."""
        # Summed and divided by the rows of the step: micro-batches have different numbers of them.
        for loss, right in self.learn(step.index, step.microbatches, step.rows):
            self.add(loss=loss / step.rows, right=right)
        self.add(examples=step.rows)
        self.log_step()

    def averages(self, sums: dict[str, float]) -> dict[str, float]:
        """Mean loss of the steps, accuracy on the training examples just before their updates (of a
        regression: squared error), examples per second."""
        return {
            "loss": sums["loss"] / sums["steps"],
            self.shown_as: sums["right"] / sums["examples"],
            "examples_per_second": sums["examples"] / sums["seconds"],
        }

    def on_validation_epoch_start(self) -> None:
        """Forgets the answers of the evaluation before."""
        self.answers: dict[str, list[tuple[Tensor, Tensor]]] = {
            column: [] for column in self.task.dev
        }

    def validation_step(self, batch: Inputs, _: int, dataloader_idx: int = 0) -> None:
        """Keeps the outputs for the rows of a dev split, one data loader for each column."""
        with autocast(self.precision, self.device):
            outputs = self.model(*read_of(batch))
        column = list(self.answers)[dataloader_idx]
        self.answers[column].append((outputs.double().cpu(), batch["labels"].double().cpu()))

    def scores(self) -> dict[str, float]:
        """Column → score × 100 of the answers of an evaluation."""
        scores = {}
        for column, batches in self.answers.items():
            outputs, targets = map(torch.cat, zip(*batches, strict=True))
            scores[column] = score(self.task, decide(self.task, outputs), targets.numpy())
        return scores

    def on_validation_epoch_end(self) -> None:
        """Logs the scores."""
        self.report(self.scores())

    on_test_epoch_start = on_validation_epoch_start
    test_step = validation_step

    def on_test_epoch_end(self) -> None:
        """Logs the scores by `self.log`, from which `Trainer.test` returns them."""
        self.log_dict(self.scores())


@dataclass
class Splits:
    """The splits of a task: each is read and encoded when it is first asked for, and kept.

    Args:
        length: tokens that a row is cut to.
        encoded: the splits that are read, as `kept_rows` has them.
    """

    location: Location
    task: Task
    tokenizer: Tokenizer
    length: int
    encoded: dict[str, Encoded] = field(default_factory=dict)

    def __getitem__(self, split: str) -> Encoded:
        """The rows of `train`, or of a value of `task.dev` or `task.test`.

        Raises:
            RelposError: its file is missing or has a mistake.
        """
        if split not in self.encoded:
            rows = read(self.location, self.task, split)
            self.encoded[split] = encode(rows, self.tokenizer, self.length)
        return self.encoded[split]

    def __contains__(self, split: str) -> bool:
        """Whether the split has a file."""
        return self.location.has(self.task, split)


class FinetuningData(StepsData):
    """The steps that are still to be done, and the dev splits, a data loader for each column."""

    def __init__(self, steps: TuningSteps, splits: Splits) -> None:
        super().__init__([steps])
        self.splits = splits

    def val_dataloader(self) -> list[DataLoader[dict[str, Tensor]]]:
        """The rows of each dev split, sorted by length."""
        splits = [self.splits[split] for split in self.splits.task.dev.values()]
        batches = [list(evaluation_batches(rows, EVALUATION_BATCH)) for rows in splits]
        return [DataLoader(rows, batch_size=None) for rows in batches]  # type: ignore[arg-type]

    test_dataloader = val_dataloader


# Of one task: encoded rows are large, and runs of one task come one after another.
@lru_cache(maxsize=1)
def kept_rows(content: str) -> dict[str, Encoded]:
    """The splits that this process has read: so further runs on one task, such as ten seeds of it,
    read nothing again.

    Args:
        content: says what the rows and their encoding depend on.
    """
    return {}


class Scores(TypedDict):
    """Of each column of a task: score × 100 and that of the constant answer, dev rows, and what
    `relpos.train.metrics.by_class` gives."""

    columns: dict[str, float]
    majority: dict[str, float]
    examples: dict[str, int]
    classes: dict[str, object]


def columns(
    model: Classifier,
    task: Task,
    splits: Splits,
    precision: str,
    predictions: Path,
) -> Scores:
    """Scores the dev splits and writes predictions for the test splits that exist.

    The answers on the dev splits are written to a folder `dev` beside the predictions.
    """
    result = Scores(columns={}, majority={}, examples={}, classes={})
    for column, split in task.dev.items():
        rows = splits[split]
        assert rows.labels is not None
        targets = rows.labels.double().numpy()
        decided = decide(task, outputs(model, rows, precision))
        write_answers(predictions.with_name("dev") / f"{column}.tsv", decided, targets)
        result["columns"][column] = score(task, decided, targets)
        result["majority"][column] = majority(task, targets.tolist())
        result["examples"][column] = len(rows)
        if classes := by_class(task, decided, targets):
            result["classes"][column] = classes
    for name, split in task.test.items():
        # GLUE has test sets without labels for the server; a task of one's own need not.
        if split in splits:
            decided = decide(task, outputs(model, splits[split], precision))
            write_predictions(predictions, task, name, decided)
    return result


@torch.no_grad()
def outputs(model: Classifier, encoded: Encoded, precision: str) -> Tensor:
    """The classifier's outputs (rows, outputs), in the order of the rows.

    Raises:
        RelposError: an output is not a number: training has diverged.
    """
    device = device_of(model)
    model.eval()
    result = torch.empty(len(encoded), model.classifier.out_features, dtype=torch.float64)
    # Rows come by length, and go back to their places.
    for batch in evaluation_batches(encoded, EVALUATION_BATCH):
        inputs = (x.to(device) for x in read_of(batch))
        with autocast(precision, device):
            result[batch["rows"]] = model(*inputs).double().cpu()
    if not result.isfinite().all():
        raise RelposError(
            "fine-tuning diverged: the outputs are not numbers; try a lower recipe.lr"
        )
    return result


def write_predictions(folder: Path, task: Task, name: str, predictions: ArrayLike) -> Path:
    """Writes `folder/NAME.tsv` in one piece and returns its path. `name` is a key of `task.test`.

    Predictions are classes or scores, as `relpos.train.metrics.decide` gives them. Classes are
    written as the words of the task's own files (`entailment`, `1`), scores clipped to the task's
    range (STS-B: 0 to 5).
    """
    # The server knows words, not our numbers of classes.
    words = _words(task, np.asarray(predictions, dtype=np.float64))
    lines = (f"{row}\t{word}\n" for row, word in enumerate(words))
    path = folder / f"{name}.tsv"
    write_text(path, "index\tprediction\n" + "".join(lines))
    return path


def write_answers(path: Path, predictions: ArrayLike, targets: ArrayLike) -> None:
    """Writes predicted classes or values beside the right ones: one line for each dev example, in
    the order of the file."""
    rows = np.stack([predictions, targets], 1).astype(np.float64).tolist()
    # Nine digits tell any two float32 numbers apart.
    lines = (f"{prediction:.9g}\t{target:.9g}\n" for prediction, target in rows)
    write_text(path, "prediction\ttarget\n" + "".join(lines))


def _words(task: Task, predictions: np.ndarray) -> list[str]:
    if task.labels is not None:
        # CSV and JSON lines may have any white space in a label; here tabs and ends of lines stand
        # between values.
        return [re.sub(r"\s", " ", task.labels[int(number)]) for number in predictions]
    low, high = task.range or (-np.inf, np.inf)
    return [f"{number:.3f}" for number in np.clip(np.nan_to_num(predictions, nan=low), low, high)]
