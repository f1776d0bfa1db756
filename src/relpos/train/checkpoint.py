"""Checkpoints that are whole or absent: kill the process anywhere, and the last whole one is found
again."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from types import FrameType
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO

from relpos.errors import RelposError
from relpos.files import check_place, replacing
from relpos.process import STOPS, on_stops
from relpos.readers import Plain
from relpos.train.checkpoint_files import HALF, LAST, UNNAMED, WHOLE, checked_name
from relpos.train.group import ALONE, Group


class Interrupted(BaseException):
    """The process was asked to stop by a signal; a checkpoint has been written.

    It is not a KeyboardInterrupt, to which Lightning would react by exiting. Its argument is the
    number of the signal that a process of the run got.
    """


@contextmanager
def stopping() -> Iterator[None]:
    """Turns the exceptions by which the trainer ends when it is asked to stop into a
    KeyboardInterrupt.

    They are `Interrupted`, from our callback, and before the first and after the last step
    Lightning's SystemExit: it reacts to a KeyboardInterrupt by exiting, and by ignoring Ctrl-C from
    then on, so that the handler is put back.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except Interrupted as stop:
        raise KeyboardInterrupt(*stop.args) from stop
    except SystemExit as stop:
        # Lightning exits inside its except clause, so that the interrupt is the context; any other
        # SystemExit is not its own.
        if isinstance(stop.__context__, KeyboardInterrupt):
            signal.signal(signal.SIGINT, handler)
            raise KeyboardInterrupt(*stop.__context__.args) from stop
        raise


class WholeCheckpoints(TorchCheckpointIO):
    """Lightning's checkpoint writer, made atomic. Of the path that Lightning passes, folder and
    stem are used."""

    def save_checkpoint(
        self,
        checkpoint: Plain,
        path: str | Path,
        storage_options: object = None,
    ) -> None:
        """Writes the checkpoint, then deletes the earlier ones.

        Raises:
            RelposError: the disk is full; the earlier checkpoint stays.
        """
        path = Path(path)
        check_place(path)
        # What a kill has left half written; the process that holds the run's lock is the only one
        # that writes here.
        for half in path.parent.glob(HALF):
            half.unlink(missing_ok=True)
        # The name needs the checksum, and so the whole file.
        unnamed = path.with_name(UNNAMED)
        # Closed here: torch's own writer keeps a file that failed, and so the blocks of a full
        # disk, as long as its error is known.
        with replacing(unnamed) as temporary, temporary.open("wb") as file:
            torch.save(checkpoint, file)
        named = checked_name(path, unnamed)
        with replacing(named) as temporary:  # which flushes the new name to disk
            unnamed.replace(temporary)
        # Only now: until the new one has its name, the earlier one is the last whole one.
        for other in list(path.parent.glob(WHOLE)):
            if other != named:
                other.unlink(missing_ok=True)


STEPS, SHARE = 500, 1 / 20


@dataclass(eq=False)
class Checkpointing(pl.Callback):
    """Writes a checkpoint after every `every` steps, and one more when the process is asked to
    stop.

    Args:
        folder: where checkpoints lie.
        every: steps between two checkpoints; None: `STEPS`, and so many more that writing takes no
            more than `SHARE` of the time. On a GPU 500 updates take seconds, and a checkpoint may
            take one.
        group: the processes that share the run: they stop at the same step, and the first one
            writes.
    """

    folder: Path
    every: int | None
    group: Group = ALONE
    asked: int | None = None
    # of the last checkpoint; before the first a second is assumed
    took: float = 1.0

    def __post_init__(self) -> None:
        self.written = time.monotonic()

    def on_train_start(self, trainer: pl.Trainer, module: Any) -> None:
        """Sets handlers for the signals that ask to stop. Earlier, Lightning's own handlers would
        replace them."""
        on_stops(self._ask)
        module.restored = True

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: object) -> None:
        """Writes a checkpoint where one is due or a process was asked to stop.

        Raises:
            Interrupted: a process was asked to stop.
            RelposError: training has diverged.
        """
        step = trainer.global_step
        is_due = step % (self.every or STEPS) == 0 and (
            self.every is not None or self.took <= SHARE * (time.monotonic() - self.written)
        )
        # Each process may have got the signal a step earlier or later: together they stop at one.
        *asked, due = self.group.sums(
            [*(self.asked == number for number in STOPS), self.group.first and is_due]
        )
        stop = next(compress(STOPS, asked), None)
        # After the last step only if asked to stop: otherwise the model is written next, and the
        # checkpoints are deleted.
        if stop is not None or (due and step < int(trainer.max_steps)):
            # Refuses weights that are not finite: they must not replace the last good checkpoint.
            module.gather()
            if self.group.first:
                began = time.monotonic()
                trainer.save_checkpoint(self.folder / LAST)
                self.written = time.monotonic()
                self.took = self.written - began
            # the other processes wait here, where it may take long, and not in the next step
            self.group.broadcast()
        if stop is not None:
            raise Interrupted(stop)

    def on_save_checkpoint(self, trainer: pl.Trainer, module: Any, checkpoint: Plain) -> None:
        """Notes how many lines the run has logged."""
        checkpoint["logged"] = len(self._lines(trainer))

    def on_load_checkpoint(self, trainer: pl.Trainer, module: Any, checkpoint: Plain) -> None:
        """Refuses to go on with a log that lacks some of these lines.

        Raises:
            RelposError: somebody has deleted or cut the log.
        """
        if self.group.first and len(self._lines(trainer)) < checkpoint.get("logged", 0):
            raise RelposError(
                f"{self.folder.parent}: its log lacks lines that stood there at the checkpoint: "
                f"delete the folder to start anew"
            )

    def _lines(self, trainer: pl.Trainer) -> list[str]:
        """The lines of the run's log; none in other processes than the first."""
        return next((logger.lines for logger in trainer.loggers if hasattr(logger, "lines")), [])

    def _ask(self, number: int, frame: FrameType | None) -> None:
        # The step ends first. Who waits for a process that hangs, and is asked twice, goes without
        # a checkpoint.
        if self.asked and self.group.waits:
            raise KeyboardInterrupt(number)
        self.asked = number


class EvaluatedFirst(pl.Callback):
    """Evaluates before the first step."""

    @torch.no_grad()
    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Evaluates in place of Lightning's own loop: restored from a checkpoint, that counts the
        evaluation of its step as done."""
        module.eval()
        module.on_validation_epoch_start()
        for index, batch in enumerate(trainer.datamodule.val_dataloader()):  # type: ignore[attr-defined]
            module.validation_step(module.transfer_batch_to_device(batch, module.device, 0), index)
        module.on_validation_epoch_end()
        module.train()


@dataclass(eq=False)
class Kept(pl.Callback):
    """Writes the checkpoint of one step, which stays when the run is finished."""

    folder: Path
    step: int

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: object) -> None:
        """Writes the checkpoint when the step is reached."""
        # There is no group to ask who writes: only a run of one process keeps a trunk.
        if trainer.global_step == self.step:
            module.gather()
            trainer.save_checkpoint(self.folder / LAST)


@dataclass(eq=False)
class Snapshots(pl.Callback):
    """Keeps the weights at some per cents of the steps: `snapshots/<per cent>.safetensors`."""

    folder: Path
    percents: list[int]

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: object) -> None:
        """Saves the weights where one of the per cents, rounded to a step, is reached."""
        from relpos.train.weights import save_weights

        for percent in self.percents:
            if trainer.global_step == snapshot_step(percent, int(trainer.max_steps)):
                save_weights(module.model, self.folder / f"{percent}.safetensors")


def snapshot_step(percent: int, steps: int) -> int:
    """The step, rounded, at which `percent` per cent of the steps are done."""
    # At least 1: callbacks come after an update, so that step 0 is never seen.
    return max(1, round(steps * percent / 100))
