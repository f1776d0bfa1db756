"""Checkpoints that are whole or absent: kill the process anywhere, and the last whole one is found again.

A file's name holds the first digits of its SHA-256, so that a checkpoint and its checksum cannot come apart.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO

from relpos.errors import RelposError
from relpos.files import replacing, sha256
from relpos.process import STOPS
from relpos.train.group import ALONE, Group


class Interrupted(BaseException):
    """The process was asked to stop by a signal; a checkpoint has been written.

    Not a KeyboardInterrupt: Lightning would answer that with an exit of its own.

    Args:
        number: of the signal that one of the run's processes got.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def stopping() -> Iterator[None]:
    """Makes a KeyboardInterrupt of what comes out of the trainer when it was asked to stop.

    Before the first step and behind the last one Lightning answers a KeyboardInterrupt with an exit, and goes deaf to more of them.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except Interrupted as stop:
        raise KeyboardInterrupt(*stop.args) from stop
    except SystemExit as stop:
        if isinstance(stop.__context__, KeyboardInterrupt):
            signal.signal(signal.SIGINT, handler)
            raise KeyboardInterrupt(*stop.__context__.args) from stop
        raise


class WholeCheckpoints(TorchCheckpointIO):
    """Lightning's checkpoint writer, made atomic. The path that Lightning gives names the folder and the stem."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Writes the checkpoint, then drops the ones before it.

        Raises:
            RelposError: the disk is full; the checkpoint before stays.
        """
        path = Path(path)
        unnamed = path.with_name("writing.ckpt")
        with replacing(unnamed) as temporary:
            torch.save(checkpoint, temporary)
        named = path.with_name(f"{path.stem}-{sha256(unnamed)[:16]}.ckpt")
        unnamed.replace(named)
        for other in path.parent.glob("*.ckpt"):
            if other != named:
                other.unlink(missing_ok=True)


def newest(folder: Path) -> Path | None:
    """The newest whole checkpoint in `folder`, or None.

    Raises:
        RelposError: there are checkpoints, and none has the content that its name promises.
    """
    found = sorted(folder.glob("last-*.ckpt"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in found:
        if sha256(path)[:16] == path.stem.removeprefix("last-"):
            return path
    if found:
        raise RelposError(f"damaged checkpoint {found[0]}: its content is not what was written; delete it to start anew")
    return None


class Checkpointing(pl.Callback):
    """Writes a checkpoint every so many steps, and one more when the process is asked to stop.

    Args:
        folder: where checkpoints lie.
        every: steps between two of them.
        group: the processes that share the run: they stop at the same step, and the first one writes.
    """

    def __init__(self, folder: Path, every: int, group: Group = ALONE) -> None:
        self.folder, self.every, self.group = folder, every, group
        self.asked: int | None = None

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Takes over the signals that ask to stop: here and not earlier, or Lightning's own handlers would stand on top."""
        for number in STOPS:
            signal.signal(number, self._ask)

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        """A checkpoint where one is due."""
        step = trainer.global_step
        asked = self.group.sums([self.asked == number for number in STOPS])
        stop = next((number for number, count in zip(STOPS, asked, strict=True) if count), None)
        if stop is not None or (step % self.every == 0 and step < int(trainer.max_steps)):
            if self.group.first and not self.folder.parent.is_dir():  # writing would make it again, and training go on for nothing
                raise RelposError(f"the run's folder {self.folder.parent} is gone")
            module.check_finite()  # weights that are no numbers must not take the place of the last good checkpoint
            if self.group.first:
                trainer.save_checkpoint(self.folder / "last.ckpt")
        if stop is not None:
            raise Interrupted(stop)

    def _ask(self, number: int, frame: Any) -> None:
        self.asked = number


class Snapshots(pl.Callback):
    """Keeps the weights at some per cents of the steps: `snapshots/<per cent>.safetensors`."""

    def __init__(self, folder: Path, shares: list[int]) -> None:
        self.folder, self.shares = folder, shares

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        """Saves where the step is the one that a per cent stands for."""
        from relpos.train.weights import save_weights

        for share in self.shares:
            if trainer.global_step == max(1, round(int(trainer.max_steps) * share / 100)):
                save_weights(module.model, self.folder / f"{share}.safetensors")  # type: ignore[arg-type]
