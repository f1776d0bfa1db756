"""What a training step reads: the same `batch` examples whatever the number of processes and the size of forward passes.

Step s takes the examples at places s·batch … (s+1)·batch - 1 of the endless order. Sorted by length they are dealt out to the
processes; each process reads its own alone and cuts them into micro-batches, so that short examples are not padded to the length of
long ones. Order, masks and dropout are functions of (seed, step, example): resuming at a step is `start=step`, and neither the cut
nor the padding changes a result by more than rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from relpos.counter import counter_hash
from relpos.data.examples import Examples
from relpos.data.masking import IGNORED
from relpos.data.objective import Objective, masked
from relpos.data.order import order
from relpos.data.passes import even_rows, passes, share
from relpos.errors import RelposError

SAMPLED_STEPS = 4  # the first ones, not the next ones: a run that is continued must have the same passes
HELDOUT_SEED = 20_210_801  # held-out text has the same masks in every run


@dataclass(frozen=True)
class MicroBatch:
    """What one forward pass sees: input_ids (b, n) with masks in, attention_mask (b, n) bool, labels (b, n) with -100 = not
    predicted; and where it is trained on, keys (b,), from which the dropout of each example is drawn, and by how much the loss of
    each example counts, weights (b,), None: all alike."""

    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor
    keys: Tensor | None = None
    weights: Tensor | None = None

    @property
    def chosen(self) -> float:
        """The number of predicted tokens, by their weights where there are some."""
        predicted = (self.labels != IGNORED).sum(1)
        return int(predicted.sum()) if self.weights is None else float((predicted * self.weights.double()).sum())


@dataclass(frozen=True)
class Step:
    """`chosen` counts the predicted tokens of the micro-batches that are held here, by their weights where there are some, `tokens`
    the real tokens of the whole step."""

    index: int
    microbatches: list[MicroBatch]
    chosen: float
    tokens: int


@dataclass(frozen=True)
class UnmaskedStep:
    """A step whose masks are drawn later, on the device: passes with input_ids (b, n) as they stand in the text, lengths (b,), keys
    (b,). All passes but the last have the same number of examples. `tokens` counts the real ones."""

    index: int
    passes: list[dict[str, Tensor]]
    tokens: int


class Steps(IterableDataset[Step]):
    """The steps from `start` up to but not including `stop`.

    Args:
        batch: examples of a step.
        microbatch: examples of full length in a forward pass; of shorter ones there are more.
        rank: number of this process.
        world: processes that share the steps.
        objective: what is predicted.
    """

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
        objective: Objective = masked,
    ) -> None:
        if len(examples) == 0:
            raise RelposError("data: no training pairs: no document has two sentences; packing=document takes text as it comes")
        self.examples, self.seed, self.batch, self.vocabulary = examples, seed, batch, vocabulary
        self.room = microbatch * examples.length
        self.start, self.stop, self.rank, self.world = start, stop, rank, world
        self.objective = objective

    def __iter__(self) -> Iterator[Step]:
        return (self.step(index) for index in range(self.start, self.stop))

    def pairs(self, index: int) -> Tensor:
        """The examples of a step, in order: (batch,)."""
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
        # Lengths are differences of offsets: to deal out by length, no process reads the tokens of other processes' examples.
        lengths = self.examples.lengths(pairs)
        tokens = int(lengths.sum())
        # Stable: examples of one length are dealt out alike on every machine.
        held = torch.argsort(lengths, stable=True, descending=True)[share(self.batch, self.rank, self.world)]
        pairs, lengths = pairs[held], lengths[held]
        objective = partial(self.objective, step=index)
        # The step is part of the key: an example has another mask each time that it is read.
        parts = [
            _microbatch(self.examples, pairs[part], counter_hash(index, pairs[part]), self.seed, self.vocabulary, objective)
            for part in passes(lengths, self.room)
        ]
        return Step(index, parts, sum(part.chosen for part in parts), tokens)

    def unmasked(self, index: int, rows: int) -> UnmaskedStep:
        """One step in passes of `rows` examples, sorted by length, longest first."""
        pairs = self.pairs(index)
        lengths = self.examples.lengths(pairs)
        by_length = torch.argsort(lengths, stable=True, descending=True)
        passes = []
        # Passes of one number of rows have few shapes, and a recording serves one shape only.
        for part in pairs[by_length].split(rows):
            ids, sizes = self.examples.batch(part)
            passes.append({"input_ids": ids, "lengths": sizes, "keys": counter_hash(index, part)})
        return UnmaskedStep(index, passes, int(lengths.sum()))


class UnmaskedSteps(IterableDataset[UnmaskedStep]):
    """Steps whose masks are drawn on the device.

    Args:
        stages: one after the other.
        most: examples that a pass may have; all passes have the largest number for which little is padded, see `even_rows`.
    """

    def __init__(self, stages: list[Steps], most: int) -> None:
        self.stages, self.most = stages, most

    def __iter__(self) -> Iterator[UnmaskedStep]:
        for stage in self.stages:
            rows = even_rows([stage.examples.lengths(stage.pairs(index)) for index in range(SAMPLED_STEPS)], self.most)
            yield from (stage.unmasked(index, rows) for index in range(stage.start, stage.stop))


def heldout_batches(
    examples: Examples, microbatch: int, vocabulary: int, rank: int = 0, world: int = 1, objective: Objective = masked
) -> Iterator[MicroBatch]:
    """All held-out examples, by length, masked as in every other run; of several processes each takes its share."""
    indices = torch.arange(len(examples))
    held = torch.argsort(examples.lengths(indices), stable=True, descending=True)[share(len(examples), rank, world)]
    for part in passes(examples.lengths(held), microbatch * examples.length):
        yield _microbatch(examples, held[part], held[part], HELDOUT_SEED, vocabulary, objective)


def _microbatch(examples: Examples, pairs: Tensor, keys: Tensor, seed: int, vocabulary: int, objective: Objective) -> MicroBatch:
    """Examples with masks in. A row's masks depend on the seed and its key."""
    ids, lengths = examples.batch(pairs)
    attention = torch.arange(ids.shape[1])[None, :] < lengths[:, None]
    seen, labels, weights = objective(ids, lengths, keys, seed, vocabulary, examples.marks)
    return MicroBatch(seen, attention, labels, keys, weights)
