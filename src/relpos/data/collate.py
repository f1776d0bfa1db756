"""Batches of rows of like length, padded to their own longest: short rows are not padded to 128.

Which rows meet in which step is a pure function of (seed, epoch), so that a run can go on from any step.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from relpos.counter import counter_hash
from relpos.data.glue_encoding import Encoded

Batch = dict[str, Tensor | int]

_ROWS, _BATCHES = 0x726F7773, 0x62617463  # keep the two draws of an epoch apart
_MULTIPLE = 8


def collate(encoded: Encoded, rows: Tensor) -> dict[str, Tensor]:
    """`rows` (b,) of the encoded data as padded tensors (b, n), n a multiple of 8 or the full length.

    Keys: input_ids, token_types (int64), attention_mask (bool, True = real token), labels (b,) where there are some.
    """
    picked = rows.tolist()
    longest = max(len(encoded.ids[row]) for row in picked)
    n = min(-(-longest // _MULTIPLE) * _MULTIPLE, max(encoded.length, longest))
    input_ids = np.full((len(picked), n), encoded.pad, dtype=np.int64)  # filled row by row: NumPy has less overhead
    token_types = np.zeros_like(input_ids)
    for at, row in enumerate(picked):
        size = len(encoded.ids[row])
        input_ids[at, :size] = encoded.ids[row]
        token_types[at, :size] = encoded.types[row]
    real = np.arange(n) < np.array([[len(encoded.ids[row])] for row in picked])
    arrays = {"input_ids": input_ids, "attention_mask": real, "token_types": token_types}
    batch = {key: torch.from_numpy(array) for key, array in arrays.items()}
    if encoded.labels is not None:
        batch["labels"] = encoded.labels[rows]
    return batch


def epoch_batches(lengths: Tensor, seed: int, epoch: int, batch: int, pool: int = 16) -> list[Tensor]:
    """The rows of each batch of one epoch: every row once, `ceil(rows / batch)` batches, one of them short.

    Rows are drawn in random order, `pool` batches at a time are sorted by length and cut, and the batches of the whole
    epoch are shuffled, so that a step's length says nothing about its place in the epoch.
    """
    order = torch.argsort(counter_hash(_ROWS, seed, epoch, torch.arange(len(lengths))), stable=True)
    batches: list[Tensor] = []
    for rows in order.split(batch * pool):
        batches.extend(rows[torch.argsort(lengths[rows], stable=True)].split(batch))
    places = torch.argsort(counter_hash(_BATCHES, seed, epoch, torch.arange(len(batches))), stable=True)
    return [batches[place] for place in places.tolist()]


class TuningSteps(IterableDataset[Batch]):
    """The batches of a fine-tuning run, from step `start` to the last; a batch also says its `step`.

    The same whatever the start: step s is batch s mod steps-an-epoch of its epoch.
    """

    def __init__(self, encoded: Encoded, seed: int, batch: int, steps: int, start: int = 0) -> None:
        self.encoded, self.seed, self.batch, self.steps, self.start = encoded, seed, batch, steps, start

    def __iter__(self) -> Iterator[Batch]:
        lengths = self.encoded.lengths
        a_pass = -(-len(self.encoded) // self.batch)
        epoch, batches = -1, list[Tensor]()
        for step in range(self.start, self.steps):
            if step // a_pass != epoch:
                epoch = step // a_pass
                batches = epoch_batches(lengths, self.seed, epoch, self.batch)
            yield {**collate(self.encoded, batches[step % a_pass]), "step": step}


def evaluation_batches(encoded: Encoded, batch: int, rank: int = 0, world: int = 1) -> Iterator[dict[str, Tensor]]:
    """Every row once, sorted by length; `rows` (b,) in a batch says which, to put the outputs back in order.

    With several processes each takes every `world`-th batch: no row is repeated to make the shares equal.
    """
    order = torch.argsort(encoded.lengths, stable=True)
    for rows in order.split(batch)[rank::world]:
        yield {**collate(encoded, rows), "rows": rows}
