"""What pre-training and fine-tuning share: the update, and how a step is logged.

A step is a fixed set of micro-batches. Dropout is seeded from (seed, step, micro-batch), so an update is a pure function of
weights, optimiser state and step: nothing has to be remembered of random generators.
"""

from __future__ import annotations

import time
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from relpos.counter import counter_hash
from relpos.model.dropout import seed_dropout
from relpos.model.precision import autocast
from relpos.train.group import ALONE, Group
from relpos.train.optim import Recipe


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
    """

    def __init__(
        self, model: nn.Module, recipe: Recipe, steps: int, seed: int, precision: str, log_every: int, group: Group = ALONE
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model, self.recipe = model, recipe
        self.steps, self.seed, self.precision, self.log_every = steps, seed, precision, log_every
        self.group = group
        self.sums: dict[str, Tensor | float] = {}
        self.clock = time.perf_counter()
        self.shown: dict[str, float] = {}

    def configure_optimizers(self) -> Any:
        """AdamW, and the schedule that `training_step` advances."""
        optimizer = self.recipe.optimizer(self.model)
        return {"optimizer": optimizer, "lr_scheduler": self.recipe.schedule(optimizer, self.steps)}

    def forward_scope(self, step: int, microbatch: int = 0) -> Any:
        """Seeds dropout for one micro-batch and gives the context of its forward pass."""
        seed_dropout(self.model, int(counter_hash(self.seed, step, microbatch)))
        return autocast(self.precision, self.device)

    def update(self) -> None:
        """Sums the gradients over the processes, clips them, updates the weights, advances the schedule."""
        optimizer: Any = self.optimizers()
        scheduler: Any = self.lr_schedulers()
        self.group.sum_gradients(self.model)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        scheduler.step()
        self.add(gradient_norm=norm, steps=1)

    def add(self, **sums: Tensor | float) -> None:
        """Sums quantities until the next log line; nothing is read back from the device before."""
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + (value.detach() if isinstance(value, Tensor) else value)

    def log_step(self) -> None:
        """Writes a log line every `log_every` steps and at the last."""
        step = self.global_step
        if step % self.log_every and step != self.steps:
            return
        sums = self.summed({name: float(value) for name, value in self.sums.items()})
        seconds = time.perf_counter() - self.clock
        optimizer: Any = self.optimizers()
        self.shown = self.averages(sums, seconds) | {
            "gradient_norm": sums["gradient_norm"] / sums["steps"],
            "learning_rate": optimizer.param_groups[0]["lr"],
            "steps_per_second": sums["steps"] / seconds,
        }
        for logger in self.loggers:
            logger.log_metrics(self.shown, step=step)
        self.sums, self.clock = {}, time.perf_counter()

    def summed(self, sums: dict[str, float]) -> dict[str, float]:
        """What `add` summed in this process, over all processes; a stage that several share says which of it is a share."""
        return sums

    def averages(self, sums: dict[str, float], seconds: float) -> dict[str, float]:
        """The stage's own metrics from what `add` summed."""
        raise NotImplementedError

    def on_train_start(self) -> None:
        """The clock starts when the data are there."""
        self.sums, self.clock = {}, time.perf_counter()


def set_threads(threads: int | None) -> int:
    """Sets the CPU threads where a number is given; returns the number in force. Results depend on it in the last bits."""
    if threads:
        torch.set_num_threads(threads)
    return torch.get_num_threads()
