"""Batches of rows of a task: drawn at random, each forward pass padded to its own longest row.

Which rows meet in which step is a pure function of (seed, epoch), so that a run can go on from any step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from relpos.counter import counter_hash
from relpos.data.glue_encoding import Encoded
from relpos.data.passes import MULTIPLE, Shapes, passes

_ROWS = 0x726F7773  # keeps the order of rows apart from other draws of the same seed


def collate(encoded: Encoded, rows: Tensor, n: int | None = None) -> dict[str, Tensor]:
    """`rows` (b,) of the encoded data as padded tensors (b, n); n None: the longest, as a multiple of 8 or the full length.

    Keys: input_ids, token_types (int64), attention_mask (bool, True = real token), labels (b,) where there are some.
    """
    picked = rows.tolist()
    longest = max(len(encoded.ids[row]) for row in picked)
    n = n or min(-(-longest // MULTIPLE) * MULTIPLE, encoded.length)
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


@dataclass(frozen=True)
class TuningStep:
    """The micro-batches of an update and the number of rows in all of them.

    A micro-batch is what `collate` makes, and `keys` (b,), from which the dropout of each row is drawn. Of few shapes it has `held`
    (T,), the places of the tokens that are computed, where these are not all, see `Shapes`.
    """

    index: int
    microbatches: list[dict[str, Tensor]]
    rows: int


def epoch_batches(rows: int, seed: int, epoch: int, batch: int) -> list[Tensor]:
    """The rows of each batch of one epoch, drawn at random: every row once, `ceil(rows / batch)` batches, the last one short.

    Batches of rows of like length would cost less padding, but length says something about the label: on QQP the mean label of such
    batches varies six times as much.
    """
    order = torch.argsort(counter_hash(_ROWS, seed, epoch, torch.arange(rows)), stable=True)
    return list(order.split(batch))


class TuningSteps(IterableDataset[TuningStep]):
    """The updates of a fine-tuning run, from step `start` to the last; the same whatever the start.

    Step s is batch s mod steps-an-epoch of its epoch, sorted by length and cut into micro-batches.

    Args:
        microbatch: rows of full length in a forward pass; of shorter ones there are more.
        few_shapes: passes have few shapes, so that they can be recorded.
    """

    def __init__(
        self, encoded: Encoded, seed: int, batch: int, steps: int, microbatch: int, start: int = 0, few_shapes: bool = False
    ) -> None:
        self.encoded, self.seed, self.batch, self.steps, self.start = encoded, seed, batch, steps, start
        self.room, self.few_shapes = microbatch * encoded.length, few_shapes

    def __iter__(self) -> Iterator[TuningStep]:
        # Once: the property counts the tokens of all rows each time that it is read.
        lengths = self.encoded.lengths
        shapes = Shapes.of(lengths, self.encoded.length, self.room) if self.few_shapes else None
        steps_an_epoch = -(-len(self.encoded) // self.batch)
        epoch, batches = -1, list[Tensor]()
        for step in range(self.start, self.steps):
            if step // steps_an_epoch != epoch:
                epoch = step // steps_an_epoch
                batches = epoch_batches(len(lengths), self.seed, epoch, self.batch)
            rows = batches[step % steps_an_epoch]
            dealt: Any = shapes.deal(lengths[rows]) if shapes else ((part, None, {}) for part in passes(lengths[rows], self.room))
            parts = [(rows[part], n, held) for part, n, held in dealt]
            microbatches = [{**collate(self.encoded, part, n), "keys": counter_hash(step, part), **held} for part, n, held in parts]
            yield TuningStep(step, microbatches, len(rows))


def evaluation_batches(encoded: Encoded, batch: int) -> Iterator[dict[str, Tensor]]:
    """Every row once, sorted by length; `rows` (b,) in a batch says which, to put the outputs back in order."""
    order = torch.argsort(encoded.lengths, stable=True)
    for rows in order.split(batch):
        yield {**collate(encoded, rows), "rows": rows}
