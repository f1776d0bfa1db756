"""Trainings that are asked to stop on the way."""

import os
import signal
from typing import Any

import pytest

from relpos.runs.execute import execute
from relpos.runs.run import Run
from relpos.train.pretrain import Pretraining


def interrupt(run: Run, *steps: int) -> None:
    """Executes a pre-training that is asked to stop after each of these steps."""
    step = Pretraining.training_step

    def stopped(self: Pretraining, batch: Any, index: int) -> None:
        step(self, batch, index)
        if self.global_step in steps:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pretraining, "training_step", stopped)
        for _ in steps:
            with pytest.raises(KeyboardInterrupt):
                execute(run)
