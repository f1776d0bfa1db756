"""A thread reads the next steps while the device computes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Empty, Full, Queue
from typing import Any

import torch
from torch.utils.data import IterableDataset

from relpos.train.move import pinned

AHEAD = 4
"""Steps that are read ahead, at most."""
_SECONDS = 0.2  # between two checks whether the other side has ended


class Prefetched(IterableDataset[Any]):
    """The items of a data set in their order, read ahead by a thread; with CUDA into pinned memory, for copies without waiting."""

    def __init__(self, data: IterableDataset[Any]) -> None:
        self.data = data

    def __iter__(self) -> Iterator[Any]:
        ready: Queue[tuple[Any, BaseException | None]] = Queue(AHEAD)
        done = threading.Event()

        def put(item: Any, error: BaseException | None = None) -> None:
            while not done.is_set():
                try:
                    return ready.put((item, error), timeout=_SECONDS)
                except Full:
                    continue

        def read() -> None:
            try:
                for item in self.data:
                    if done.is_set():
                        return
                    put(pinned(item) if torch.cuda.is_available() else item)
                put(None, StopIteration())
            # All of them: an error in a thread would otherwise be a line on stderr, and the training would wait for ever.
            except BaseException as error:
                put(None, error)

        reader = threading.Thread(target=read, name="coming steps", daemon=True)
        reader.start()
        try:
            while True:
                try:
                    item, error = ready.get(timeout=_SECONDS)
                except Empty:
                    continue
                # Not raised: a StopIteration that leaves a generator becomes a RuntimeError.
                if isinstance(error, StopIteration):
                    return
                if error is not None:
                    raise error
                yield item
        finally:
            done.set()
            reader.join()
