"""Language modelling, masked or causal: the module, its data, and the held-out loss."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import torch
from lightning_fabric.utilities.throughput import get_available_flops
from torch import Tensor
from torch.utils.data import DataLoader

from relpos.data.objective import IGNORED, Objective, masked
from relpos.data.steps import MicroBatch, Step, Steps, heldout_batches
from relpos.data.store import Store
from relpos.errors import RelposError, plural
from relpos.model.heads import MaskedLM
from relpos.model.precision import autocast
from relpos.model.tokens import Tokens
from relpos.readers import Plain
from relpos.train.group import ALONE, LONG, Group
from relpos.train.module import Training
from relpos.train.prefetch import StepsData
from relpos.train.recorded import Inputs

HELDOUT_EXAMPLES = 2000
"""Held-out examples that are scored; every run scores the same ones under the same masks."""

MOST_LOSS = 700.0
"""The perplexity of a loss little larger than this, its exponential, would overflow float64."""


class Pretraining(Training):
    """One run of language modelling; the loss of a step is the sum over its chosen tokens divided
    by their number.

    Chosen tokens are those that are to be predicted: the 15 % that are masked, or in a causal
    network all tokens of text. With `recipe.masking=diffusion` losses, hits and number are
    weighted: see `relpos.data.objective.diffused`.
    """

    model: MaskedLM
    partial = ("loss", "correct")

    def __init__(self, *args: Any, operations: float = 0.0, **keys: Any) -> None:
        super().__init__(*args, **keys)
        self.operations = operations  # of a token, as `relpos.runs.cost` counts them
        self.peak: float | None = None
        self.result: dict[str, float] = {}
        self.evaluated: int | None = None  # the step of `result`
        self.chosen = 0.0  # tokens so far

    def on_train_start(self) -> None:
        """Counts chosen tokens anew: those before a checkpoint are not known any more."""
        super().on_train_start()
        # operations per second that a GPU can do at most; None on a CPU, and where Lightning's
        # table lacks the GPU, of which it would warn
        with warnings.catch_warnings(action="ignore"):
            dtype = torch.bfloat16 if self.precision == "bf16" else torch.float32
            self.peak = get_available_flops(self.device, dtype)
        self.chosen = math.inf if self.global_step else 0.0

    def forward(self, batch: Inputs, held: Tokens | None = None) -> tuple[Tensor, Tensor]:
        """The sum of the losses of a micro-batch and the number of tokens predicted right, by the
        weights of the rows if there are some."""
        loss, _, correct = self.model.loss_sum(
            batch["input_ids"],
            batch["labels"],
            batch["attention_mask"],
            at=batch.get("at"),
            weights=batch.get("weights"),
            held=held,
        )
        return loss, correct

    def training_step(self, step: Step, _index: int) -> None:
        """Sums the gradients of the passes and updates once."""
        # The mean is over the tokens of all processes, which have different numbers of them.
        chosen = self.group.sums([step.chosen])[0]
        passes = [part.inputs for part in step.microbatches]
        for loss, correct in self.learn(step.index, passes, max(1.0, chosen)):
            self.add(loss=loss, correct=correct)
        self.add(chosen=chosen, tokens=step.tokens)
        self.log_step()

    def averages(self, sums: dict[str, float]) -> dict[str, float]:
        """Loss and accuracy per chosen token, and real tokens (padding not counted) per second;
        `mfu`, the share of their operations in what the devices can do at most, where that is
        known."""
        self.chosen += sums["chosen"]
        if not self.chosen and self.global_step == self.steps:
            raise RelposError(
                f"nothing was learned: in {self.steps} steps no token was masked; give longer "
                f"texts or a larger batch"
            )
        chosen = max(1.0, sums["chosen"])  # in few short examples none may be chosen
        speed = sums["tokens"] / sums["seconds"]
        result = {
            "loss": sums["loss"] / chosen,
            "accuracy": sums["correct"] / chosen,
            "real_tokens_per_second": speed,
        }
        if self.peak and self.operations:
            result["mfu"] = speed * self.operations / (self.peak * self.group.world)
        return result

    def on_validation_epoch_start(self) -> None:
        """Sums start at zero, and the clock of the steps stands still."""
        # Reading waits for the GPU: the time of the steps before is not that of the evaluation.
        float(self.sums.get("gradient_norm", 0.0))
        self.paused = time.perf_counter()
        # Sums and not means of batches, which have different numbers of tokens.
        self.heldout: list[Tensor | int] = [0, 0, 0]

    def validation_step(self, batch: MicroBatch, _index: int) -> None:
        """Sums the loss over held-out tokens."""
        with autocast(self.precision, self.device):
            sums = self.model.loss_sum(batch.input_ids, batch.labels, batch.attention_mask)
        self.heldout = [total + part for total, part in zip(self.heldout, sums, strict=True)]

    def on_validation_epoch_end(self) -> None:
        """Logs the held-out loss and keeps the figures as `self.result`.

        Raises:
            RelposError: no held-out token is predicted; or the loss or the perplexity is not a
                finite number: training has diverged.
        """
        loss, chosen, correct = self.group.sums([float(total) for total in self.heldout], LONG)
        if not chosen:
            raise RelposError(
                "data: no token of the held-out text is predicted: the corpus is too small"
            )
        # Not `>=`, which NaN would pass.
        if not loss / chosen < MOST_LOSS:
            raise RelposError(
                f"training diverged after {self.global_step} steps: the held-out loss is "
                f"{loss / chosen:.4g}; try a lower recipe.lr"
            )
        self.clock += time.perf_counter() - self.paused
        self.evaluated = self.global_step
        self.result = {
            "heldout_loss": loss / chosen,
            "heldout_perplexity": math.exp(loss / chosen),
            "heldout_accuracy": correct / chosen,
        }
        self.report(self.result)


class PretrainingData(StepsData):
    """The steps that are still to be done, and the held-out examples.

    Args:
        store: tokens on disk.
        microbatch: examples of full length in a forward pass.
        pairs: the most training examples; None: all.
        first: training in two phases: `share` of the steps reads `first["batch"]` examples of at
            most `first["length"]` tokens, packed as `first["packing"]` says where it is there; the
            other steps `batch` examples of `length`; None: all steps do the latter.
        group: the processes among which the examples of a step, and the held-out ones, are divided.
        few_shapes, padding: see `Steps`.
        objective: what is predicted in training; its `heldout` is what is predicted of the held-out
            examples.

    Raises:
        RelposError: there are too few held-out examples for each process to have one.
    """

    def __init__(
        self,
        store: Store,
        *,
        seed: int,
        steps: int,
        batch: int,
        microbatch: int,
        length: int,
        packing: str,
        pairs: int | None,
        first: Plain | None = None,
        group: Group = ALONE,
        few_shapes: bool = False,
        padding: bool = True,
        objective: Objective = masked,
    ) -> None:
        self.store = store
        self.heldout = store.examples("heldout", packing, length, HELDOUT_EXAMPLES)
        shapes = [(packing, length, batch, steps)]
        if first:
            packing = first.get("packing") or packing
            stop = round(first["share"] * steps)
            shapes.insert(0, (packing, first["length"], first["batch"], stop))
        phases = []
        for packing, length, batch, stop in shapes:
            steps_of_phase = Steps(
                store.examples("train", packing, length, pairs),
                seed,
                batch,
                microbatch,
                store.vocabulary,
                stop=stop,
                rank=group.rank,
                world=group.world,
                objective=objective,
                few_shapes=few_shapes,
                padding=padding,
            )
            phases.append(steps_of_phase)
        super().__init__(phases)
        # Without an example Lightning would evaluate nothing and say nothing, and another process
        # would wait for this one.
        if len(self.heldout) < group.world:
            raise RelposError(
                f"data: the held-out text makes {plural(len(self.heldout), 'example')}, and each "
                f"process needs one; raise "
                "data.heldout, or take packing=document, where a single sentence makes one"
            )

    def unigram_loss(self) -> float:
        """Held-out loss, in nats, of a model that knows how often each piece occurs and nothing
        else: what a network has to be below to have learned from context."""
        counts = torch.from_numpy(self.store.counts()).double() + 1  # each piece is possible
        losses = -(counts / counts.sum()).log()
        objective = self.steps.objective.heldout
        total, predicted = 0.0, 0
        for batch in heldout_batches(self.heldout, 64, self.steps.vocabulary, objective=objective):
            labels = batch.labels[batch.labels != IGNORED]
            total += float(losses[labels].sum())
            predicted += len(labels)
        return total / max(1, predicted)

    def val_dataloader(self) -> DataLoader[MicroBatch]:
        """Held-out examples under fixed masks."""
        steps = self.steps
        batches = heldout_batches(
            self.heldout,
            max(16, steps.microbatch),  # without gradients they need less memory
            steps.vocabulary,
            steps.rank,
            steps.world,
            steps.objective.heldout,
        )
        # A list: every evaluation goes through it, and it has some megabytes.
        return DataLoader(list(batches), batch_size=None)  # type: ignore[arg-type]
