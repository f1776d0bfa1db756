"""A thread reads the next steps while the device computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.utils.data import IterableDataset

from relpos.train.move import pinned

AHEAD = 4
"""Steps that are read ahead, at most."""


class Prefetched(IterableDataset[Any]):
    """The items of a data set in their order, read ahead by a thread; with CUDA into pinned memory, for copies without waiting."""

    def __init__(self, data: IterableDataset[Any]) -> None:
        self.data = data

    def __iter__(self) -> Iterator[Any]:
        items, end = iter(self.data), object()

        def read() -> Any:
            item = next(items, end)
            return pinned(item) if torch.cuda.is_available() else item

        reader = ThreadPoolExecutor(1, "coming steps")
        try:
            ahead = deque(reader.submit(read) for _ in range(AHEAD))
            while (item := ahead.popleft().result()) is not end:
                ahead.append(reader.submit(read))
                yield item
        finally:
            reader.shutdown(cancel_futures=True)
