"""What a training step reads: the same `batch` pairs whatever the number of processes.

Step s takes the pairs at places s·batch … (s+1)·batch - 1 of the endless order, sorts them by length and cuts them
into fixed micro-batches, so that short pairs are not padded to the length of long ones. They are dealt out to the
processes there and back again, so that nobody gets the longer one every time; each process reads its own alone.
Order and masks are functions of (seed, step, pair): resuming at a step is `start=step`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from relpos.counter import counter_hash
from relpos.data.examples import Examples
from relpos.data.masking import IGNORED, mask
from relpos.data.order import order
from relpos.errors import RelposError

HELDOUT_SEED = 20_210_801  # held-out text has the same masks in every run


@dataclass(frozen=True)
class MicroBatch:
    """input_ids (b, n) with masks in, attention_mask (b, n) bool, labels (b, n) with -100 = not predicted; its number
    within the step (for a held-out batch: within the set)."""

    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor
    index: int


@dataclass(frozen=True)
class Step:
    """`chosen` counts the predicted tokens of the micro-batches that are held here, `tokens` the real tokens of the whole step."""

    index: int
    microbatches: list[MicroBatch]
    chosen: int
    tokens: int


class Steps(IterableDataset[Step]):
    """The steps from `start` up to but not including `stop`."""

    def __init__(
        self,
        examples: Examples,
        seed: int,
        batch: int,
        microbatch: int,
        vocabulary: int,
        start: int = 0,
        stop: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        if len(examples) == 0:
            raise RelposError("data: no training pairs: the corpus is too small")
        self.examples, self.seed, self.batch, self.microbatch, self.vocabulary = (
            examples,
            seed,
            batch,
            microbatch,
            vocabulary,
        )
        self.start, self.stop, self.rank, self.world = start, stop, rank, world

    def __iter__(self) -> Iterator[Step]:
        return (self.step(index) for index in range(self.start, self.stop))

    def pairs(self, index: int) -> Tensor:
        """The pairs of a step, in order: (batch,)."""
        place = torch.arange(index * self.batch, (index + 1) * self.batch)
        count = len(self.examples)
        out = torch.empty_like(place)
        for epoch in range(index * self.batch // count, ((index + 1) * self.batch - 1) // count + 1):
            here = place // count == epoch
            out[here] = order(count, epoch, self.seed, place[here] % count)
        return out

    def step(self, index: int) -> Step:
        """One step, or this process's share of it."""
        pairs = self.pairs(index)
        lengths = self.examples.lengths(pairs)
        by_length = torch.argsort(lengths, stable=True, descending=True)
        parts = [
            _microbatch(self.examples, pairs[part], counter_hash(index, pairs[part]), self.seed, self.vocabulary, number)
            for number, part in enumerate(torch.split(by_length, self.microbatch))
            if holder(number, self.world) == self.rank
        ]
        chosen = sum(int((part.labels != IGNORED).sum()) for part in parts)
        return Step(index, parts, chosen, int(lengths.sum()))


def holder(number: int, world: int) -> int:
    """The process that takes micro-batch `number` of a step: 0, 1, 2, 2, 1, 0, 0, 1, … of three."""
    place = number % (2 * world)
    return place if place < world else 2 * world - 1 - place


def heldout_batches(examples: Examples, batch: int, vocabulary: int, rank: int = 0, world: int = 1) -> Iterator[MicroBatch]:
    """All held-out examples, by length, masked as in every other run; of several processes each takes every `world`-th batch."""
    indices = torch.arange(len(examples))
    by_length = torch.argsort(examples.lengths(indices), stable=True, descending=True)
    for number, part in enumerate(torch.split(by_length, batch)):
        if number % world == rank:
            yield _microbatch(examples, part, part, HELDOUT_SEED, vocabulary, number)


def _microbatch(examples: Examples, pairs: Tensor, keys: Tensor, seed: int, vocabulary: int, number: int) -> MicroBatch:
    ids, lengths = examples.batch(pairs)
    attention = torch.arange(ids.shape[1])[None, :] < lengths[:, None]
    masked, labels = mask(ids, lengths, keys, seed, vocabulary)
    return MicroBatch(masked, attention, labels, number)
