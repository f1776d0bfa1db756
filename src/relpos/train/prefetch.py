"""Steps on their way to the device: a thread reads the next ones while it computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, is_dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

T = TypeVar("T")
AHEAD = 4
"""Steps that are read ahead, at most."""


@dataclass(eq=False)
class Prefetched(IterableDataset[T]):
    """The items of a data set in their order, read ahead by a thread; with CUDA into pinned memory,
    for copies without waiting."""

    data: IterableDataset[T]

    def __iter__(self) -> Iterator[T]:
        items = iter(self.data)

        def read() -> list[T]:
            """The next item; no item at the end."""
            coming = [*islice(items, 1)]
            return pinned(coming) if torch.cuda.is_available() else coming

        reader = ThreadPoolExecutor(1, "coming steps")
        try:
            ahead = deque(reader.submit(read) for _ in range(AHEAD))
            while coming := ahead.popleft().result():
                ahead.append(reader.submit(read))
                yield from coming
        finally:
            reader.shutdown(cancel_futures=True)


class StepsData(pl.LightningDataModule):
    """The steps of a training that are still to be done.

    Args:
        phases: steps from `start` to `stop`, which share one count, so that a checkpoint says where
            to go on in any of them. Where they have few shapes, for recorded passes, a thread reads
            the next ones.
    """

    def __init__(self, phases: Sequence[Any]) -> None:
        super().__init__()
        self.phases = phases
        self.steps = phases[-1]
        """The last phase."""

    def train_dataloader(self) -> Iterable[object]:
        """The steps from the one that the trainer is at when it begins to read them."""
        steps = _Remaining(self)
        # None: an item is a whole step already, which DataLoader is not to put into a batch.
        return Prefetched(steps) if self.steps.few_shapes else DataLoader(steps, batch_size=None)


@dataclass(eq=False)
class _Remaining(IterableDataset[object]):
    """The steps behind the trainer's global step: a checkpoint is restored before they are read."""

    data: StepsData

    def __iter__(self) -> Iterator[object]:
        trainer = self.data.trainer
        assert trainer is not None
        # Lightning's overfit_batches reads the same steps again and again.
        start = 0 if getattr(trainer, "overfit_batches", 0) else trainer.global_step
        for phase in self.data.phases:
            phase.start, start = start, max(start, phase.stop)
            yield from phase


def pinned(value: T) -> T:
    """The value with its tensors in pinned memory, from which a GPU copies while the CPU goes
    on."""
    return with_tensors(Tensor.pin_memory, value)


def with_tensors(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    """The value with what a function makes of each tensor in its lists, dictionaries and
    dataclasses."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, list):
        return [with_tensors(function, item) for item in value]
    if isinstance(value, dict):
        return {key: with_tensors(function, item) for key, item in value.items()}
    if is_dataclass(value):
        return replace(value, **with_tensors(function, vars(value)))  # type: ignore[type-var]
    return value
