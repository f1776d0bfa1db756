"""The progress bar: on a terminal a line that moves, elsewhere a line now and then; always on stderr."""

from __future__ import annotations

import time
from typing import Any

import pytorch_lightning as pl
from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

from relpos.errors import say
from relpos.progress import display

SECONDS = 30.0
"""Seconds between two lines where stderr is not a terminal."""


class Bar(pl.Callback):
    """Step, speed, time left and the newest logged loss."""

    def __init__(self, name: str, steps: int) -> None:
        self.name, self.steps = name, steps
        columns = "{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), "{task.fields[shown]}"
        self.progress = display(*columns)
        self.last_line = time.monotonic()

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Shows the bar, beginning at the step from which the run is continued."""
        self.progress.start()
        self.bar = self.progress.add_task(self.name, total=self.steps, completed=trainer.global_step, shown="")

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        """Moves the bar; where stderr is not a terminal, prints a line when one is due."""
        shown = "  ".join(
            f"{key} {value:.4g}" for key, value in module.shown.items() if key in ("loss", "accuracy", "real_tokens_per_second")
        )
        self.progress.update(self.bar, completed=trainer.global_step, shown=shown)
        if self.progress.disable and time.monotonic() - self.last_line > SECONDS:
            self.last_line = time.monotonic()
            say(f"{self.name}: step {trainer.global_step}/{self.steps}  {shown}")

    def teardown(self, trainer: pl.Trainer, module: pl.LightningModule, stage: str) -> None:
        """Leaves the terminal as it was, at the end of a training."""
        self.progress.stop()

    def on_exception(self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException) -> None:
        """The same where a training stops or fails: Lightning does not call `teardown` then."""
        self.progress.stop()
