"""The rows of a task as token ids, `[CLS] a [SEP]` (types 0) `b [SEP]` (types 1), the longer one
cut first; and batches of them.

Batches are drawn at random, each forward pass padded to its own longest row. Which rows meet in
which step is a pure function of (seed, epoch), so that a run can go on from any step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from relpos.counter import counter_hash
from relpos.data.glue import Rows
from relpos.data.passes import MULTIPLE, Shapes, passes
from relpos.data.tokenizer import TextIds, Tokenizer
from relpos.errors import RelposError

_ROWS = 0x726F7773  # keeps the order of rows apart from other draws of the same seed


@dataclass(frozen=True)
class Encoded:
    """Encoded rows, unpadded."""

    ids: list[TextIds]  # (n_i,)
    seconds: list[int]  # where the second text of each row begins, of one text its end
    labels: Tensor | None  # (rows,) int64 classes or float32 scores
    pad: int
    length: int  # no row is longer

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def lengths(self) -> Tensor:
        return torch.tensor([len(row) for row in self.ids])


def encode(rows: Rows, tokenizer: Tokenizer, length: int = 128) -> Encoded:
    """Raises: RelposError where `length` has no room for a token of each sentence."""
    seconds: Sequence[TextIds | None] = [None] * len(rows)
    between = 1
    if rows.sentence_b is not None:
        seconds = tokenizer.encode(rows.sentence_b)
        between = tokenizer.separators
    if length < 4 + between:
        raise RelposError(
            f"length={length}: a pair needs at least {4 + between} positions, [CLS] "
            f"a {'[SEP] ' * between}b [SEP]"
        )
    cls, sep = np.array([[tokenizer.cls], [tokenizer.sep]], np.int32)
    ids, starts = [], []
    for a, b in zip(tokenizer.encode(rows.sentence_a), seconds, strict=True):
        if b is None:
            row = np.concatenate([cls, a[: length - 2], sep])
            starts.append(len(row))
        else:
            length_a, length_b = cut(len(a), len(b), length - 2 - between)
            row = np.concatenate([cls, a[:length_a], sep.repeat(between), b[:length_b], sep])
            starts.append(1 + length_a + between)
        ids.append(row)
    labels = None
    if rows.labels is not None:
        labels = torch.tensor(rows.labels)
    return Encoded(ids, starts, labels, tokenizer.pad, length)


def cut(a: int, b: int, room: int) -> tuple[int, int]:
    """Longest first: the lengths left when the longer of two loses its last token until `a + b <=
    room`.

    Of two equally long ones the second loses its token first, as in the library that the authors
    used.
    """
    b = min(b, max(room // 2, room - a))
    return min(a, room - b), b


def collate(encoded: Encoded, rows: Tensor, n: int | None = None) -> dict[str, Tensor]:
    """`rows` (b,) of the encoded data as padded tensors (b, n); n None: the longest, as a multiple
    of 8 or the full length.

    Keys: input_ids, token_types (int64), attention_mask (bool, True = real token), labels (b,)
    where there are some.
    """
    lengths = encoded.lengths[rows]
    n = n or min(-(-int(lengths.max()) // MULTIPLE) * MULTIPLE, encoded.length)
    place = torch.arange(n)
    real = place < lengths[:, None]
    numbers = rows.tolist()
    input_ids = torch.full((len(numbers), n), encoded.pad)
    input_ids[real] = torch.from_numpy(np.concatenate([encoded.ids[row] for row in numbers])).long()
    seconds = torch.tensor([encoded.seconds[row] for row in numbers])[:, None]
    types = (real & (place >= seconds)).long()
    batch = {"input_ids": input_ids, "attention_mask": real, "token_types": types}
    if encoded.labels is not None:
        batch["labels"] = encoded.labels[rows]
    return batch


@dataclass(frozen=True)
class TuningStep:
    """The micro-batches of an update and the number of rows in all of them.

    A micro-batch has the tensors of `collate`, and `keys` (b,), from which the dropout of each row
    is drawn. With few shapes it may have `held` (T,), the places of the tokens that are computed,
    see `Shapes`; without it all are.
    """

    index: int
    microbatches: list[dict[str, Tensor]]
    rows: int


def epoch_batches(rows: int, seed: int, epoch: int, batch: int) -> list[Tensor]:
    """The rows of each batch of one epoch, drawn at random: every row once, `ceil(rows / batch)`
    batches, the last one short.

    Batches of rows of like length would cost less padding, but length says something about the
    label: on QQP the mean label of such batches varies six times as much.
    """
    order = torch.argsort(counter_hash(_ROWS, seed, epoch, torch.arange(rows)), stable=True)
    return list(order.split(batch))


@dataclass(eq=False)
class TuningSteps(IterableDataset[TuningStep]):
    """The updates of a fine-tuning run, from step `start` to the last; the same whatever the start.

    Step s is batch s mod steps-an-epoch of its epoch, sorted by length and cut into micro-batches.

    Args:
        microbatch: rows of full length in a forward pass; of shorter ones there are more.
        few_shapes: passes have few shapes, so that they can be recorded.
        padding: see `passes`.
    """

    encoded: Encoded
    seed: int
    batch: int
    stop: int
    microbatch: int
    start: int = 0
    few_shapes: bool = False
    padding: bool = True

    def __iter__(self) -> Iterator[TuningStep]:
        lengths = self.encoded.lengths
        room = self.microbatch * self.encoded.length
        shapes = Shapes.of(lengths, self.encoded.length, room)
        steps_an_epoch = -(-len(lengths) // self.batch)
        batches = list[Tensor]()
        for index in range(self.start, self.stop):
            epoch, place = divmod(index, steps_an_epoch)
            if not batches or place == 0:
                batches = epoch_batches(len(lengths), self.seed, epoch, self.batch)
            rows = batches[place]
            step = TuningStep(index, [], len(rows))
            parts: Iterable[tuple[Tensor, int | None, Tensor | None]] = shapes.deal(lengths[rows])
            if not self.few_shapes:  # of the columns that their rows need, with all places computed
                cut = passes(lengths[rows], room, self.padding)
                parts = ((part, None, None) for part in cut)
            for part, n, held in parts:
                microbatch = collate(self.encoded, rows[part], n)
                microbatch["keys"] = counter_hash(index, rows[part])
                if held is not None:
                    microbatch["held"] = held
                step.microbatches.append(microbatch)
            yield step


def evaluation_batches(encoded: Encoded, batch: int) -> Iterator[dict[str, Tensor]]:
    """Every row once, sorted by length; `rows` (b,) of a batch are their numbers, to put the
    outputs back in order."""
    order = torch.argsort(encoded.lengths, stable=True)
    for rows in order.split(batch):
        yield {**collate(encoded, rows), "rows": rows}
