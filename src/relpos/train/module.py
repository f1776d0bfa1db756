"""What pre-training and fine-tuning share: the update, and how a step is logged.

Dropout is drawn from (seed, step, example), so an update is a pure function of weights, optimiser
state and step: checkpoints hold no state of random generators, and how a step is cut into forward
passes changes its result by rounding alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from relpos.counter import fold
from relpos.errors import RelposError
from relpos.model.dropout import seed_dropout
from relpos.model.precision import autocast, casting_once
from relpos.model.tokens import Tokens
from relpos.readers import Plain
from relpos.train.group import ALONE, Group
from relpos.train.optim import Recipe
from relpos.train.prefetch import with_tensors
from relpos.train.recorded import Inputs, RecordedSteps, Recorder


class Training(pl.LightningModule):
    """The optimiser's side of a training run.

    Args:
        model: the network; its parameters are trained.
        recipe: optimiser, schedule and clipping.
        steps: updates in all.
        seed: of dropout.
        precision: `fp32` or `bf16`.
        log_every: steps between two log lines.
        group: the processes that share the run.
        recorder: called once the network is on its device; records the passes of steps, which then
            come in few shapes.
    """

    partial: tuple[str, ...] = ()
    """Sums over the micro-batches of this process; a stage that several processes share names its
    own."""

    def __init__(
        self,
        model: nn.Module,
        recipe: Recipe,
        steps: int,
        seed: int,
        precision: str,
        log_every: int,
        group: Group = ALONE,
        recorder: Callable[[], Recorder] | None = None,
    ) -> None:
        super().__init__()
        # A step has several backward passes whose number depends on its examples; Lightning expects
        # one.
        self.automatic_optimization = False
        self.model: Any = model
        self.recipe = recipe
        self.steps, self.seed, self.precision, self.log_every = steps, seed, precision, log_every
        self.group, self.recorder = group, recorder
        self.recorded: RecordedSteps | None = None
        self.sums: dict[str, Tensor | float] = {}
        self.clock = time.perf_counter()
        self.shown: dict[str, float] = {}
        self.rate = 0.0
        self.restored = False
        """Whether the checkpoint, where there is one, is restored; `Checkpointing` sets it."""

    def setup(self, stage: str) -> None:
        """Refuses what a Trainer of one's own would do a second time.

        Raises:
            RelposError: names the key by which relpos does it.
        """
        if self.trainer.world_size > 1:
            raise RelposError(
                f"Trainer(devices={self.trainer.world_size}): relpos divides a step among "
                f"processes itself; speed.devices=N of relpos pretrain trains on several"
            )
        if self.trainer.precision != "32-true":
            raise RelposError(
                f"Trainer(precision={self.trainer.precision!r}): relpos casts by itself; "
                f"precision=bf16 of relpos.compose says so"
            )

    def configure_optimizers(self) -> Any:
        """AdamW, and the schedule that `training_step` advances."""
        optimizer = self.recipe.optimizer_of(self.model)
        # Lightning keeps the state of both in its checkpoints.
        return {
            "optimizer": optimizer,
            "lr_scheduler": self.recipe.scheduler(optimizer, self.steps),
        }

    def transfer_batch_to_device(
        self,
        batch: object,
        device: torch.device,
        dataloader_idx: int,
    ) -> object:
        """Moves dataclasses of tensors as a whole, which Lightning does not; recorded steps copy
        theirs to where they are read."""
        if self.recorded and self.trainer.training:
            return batch
        return with_tensors(lambda tensor: tensor.to(device, non_blocking=True), batch)

    def forward(self, batch: Inputs, held: Tokens | None = None) -> tuple[Tensor, Tensor]:
        """The sum of the losses of a micro-batch, and another sum over it; `held` are the tokens
        that are computed."""
        raise NotImplementedError

    def learn(self, index: int, passes: list[Inputs], number: float) -> list[tuple[Tensor, ...]]:
        """One step: its gradient is that of the summed losses, divided by `number`. Returns the
        sums of its passes, which recorded passes add up.

        Raises:
            RelposError: on a CPU: the gradient's norm is not finite; the weights are still those
                before the update.
        """
        self.model.encoder.position.begin_step(index)
        if self.recorded is None:
            sums = self.gradients(index, passes, number)
            self.group.sum_gradients(self.model)
            # After the sum over processes: a part of the gradient has another norm.
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        else:
            sums = [(*self.recorded.sums(index, passes),)]
            # Leaves no `grad`: Lightning counts the step below, which does nothing.
            norm = self.recorded.update(number)
        self.add(gradient_norm=norm, steps=1)
        # reading it on a GPU would wait for the device: there `log_step` and checkpoints check
        if norm.device.type == "cpu":
            self.check_finite()
        optimizer: Any = self.optimizers()
        scheduler: Any = self.lr_schedulers()
        # The rate of this update, before the schedule goes on. The first group has the recipe's
        # own; those of position scheme and convolution may be multiples of it.
        self.rate = float(optimizer.param_groups[0]["lr"])
        optimizer.step()
        # None and not 0: AdamW skips a parameter without a gradient, and would decay one whose
        # gradient is 0.
        optimizer.zero_grad(set_to_none=True)
        scheduler.step()
        return sums

    def gradients(
        self,
        index: int,
        passes: list[Inputs],
        number: float,
    ) -> list[tuple[Tensor, ...]]:
        """Leaves the gradient of the summed losses of a step, divided by `number`, in `grad`; the
        sums of its passes."""
        sums: list[tuple[Tensor, ...]] = []
        with casting_once(self.precision, self.device):
            for part in passes:
                seed_dropout(self.model, fold(self.seed, index), part["keys"])
                with autocast(self.precision, self.device):
                    loss, other = self(part)
                self.manual_backward(loss / number)
                sums.append((loss.detach(), other))
        return sums

    def check_finite(self) -> None:
        """Checks the gradients since the last log line.

        All processes see the same norms, so that they stop together.

        Raises:
            RelposError: the norm of one of them is not finite: training has diverged.
        """
        # a sum of norms: not finite where one of them is not
        norm = float(self.sums.get("gradient_norm", 0.0))
        if not math.isfinite(norm):
            raise RelposError(
                f"training diverged after {self.global_step} steps: the norm of the gradient is "
                f"{norm}; try a lower recipe.lr"
            )

    def add(self, **sums: Tensor | float) -> None:
        """Sums quantities until the next log line; nothing is read back from the device before."""
        for name, value in sums.items():
            number = value.detach() if isinstance(value, Tensor) else value
            self.sums[name] = self.sums.get(name, 0.0) + number

    def gather(self) -> dict[str, float]:
        """The sums and seconds since the last log line, over all processes; called before anything
        is logged or a checkpoint is written, which then has the beginning of the next line.

        Raises:
            RelposError: training has diverged.
        """
        self.check_finite()
        now = time.perf_counter()
        self.add(seconds=now - self.clock)
        self.clock = now
        sums = {name: float(value) for name, value in self.sums.items()}
        own = [sums.get(name, 0.0) for name in self.partial]
        sums |= zip(self.partial, self.group.sums(own), strict=True)
        self._go_on_from(sums)
        return sums

    def _go_on_from(self, sums: dict[str, float]) -> None:
        # Totals over all processes stay with rank 0; the others restart at 0.
        self.sums = dict(sums)
        if not self.group.first:
            self.sums |= dict.fromkeys(sums.keys() & set(self.partial), 0.0)

    def on_save_checkpoint(self, checkpoint: Plain) -> None:
        """Keeps what has been summed since the last log line."""
        checkpoint["sums"] = self.sums

    def on_load_checkpoint(self, checkpoint: Plain) -> None:
        """Goes on with the sums of the checkpoint."""
        self._go_on_from(checkpoint["sums"])

    def log_step(self) -> None:
        """Writes a log line every `log_every` steps and at the last."""
        step = self.global_step
        if step % self.log_every and step != self.steps:
            return
        sums = self.gather()
        self.shown = self.averages(sums) | {
            "gradient_norm": sums["gradient_norm"] / sums["steps"],
            "learning_rate": self.rate,
            "steps_per_second": sums["steps"] / sums["seconds"],
        }
        self.report(self.shown)
        self.sums, self.clock = {}, time.perf_counter()

    def report(self, figures: dict[str, float]) -> None:
        """Gives figures to callbacks, as `trainer.callback_metrics`, and to the loggers.

        Loggers are called directly. Through `self.log` they would miss the last step where that is
        no multiple of Lightning's `log_every_n_steps`, and numbers would be rounded to float32.
        """
        self.log_dict(figures, logger=False)
        for logger in self.loggers:
            logger.log_metrics(figures, step=self.global_step)

    def averages(self, sums: dict[str, float]) -> dict[str, float]:
        """The stage's own metrics from what `gather` gives."""
        raise NotImplementedError

    def on_train_start(self) -> None:
        """Makes the recorder, now that the network is on its device. Starts the clock only now, so
        that the time for reading the data does not count."""
        if self.recorder:
            optimizer: Any = self.optimizers()
            self.recorded = RecordedSteps(self, self.recorder(), optimizer.optimizer)
        self.clock = time.perf_counter()
