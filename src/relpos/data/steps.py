"""What a training step reads: the same `batch` examples whatever the number of processes and the
size of forward passes.

Step s takes the examples at places s·batch … (s+1)·batch - 1 of the endless order. Sorted by length
they are dealt out to the processes; each process reads its own alone and cuts them into
micro-batches, so that short examples are not padded to the length of long ones. Order, masks and
dropout are functions of (seed, step, example): resuming at a step is `start=step`, and neither the
cut nor the padding changes a result by more than rounding.

The order of an epoch is a permutation of 0 … count-1 that is computed where it is needed and never
stored: a Feistel network over the smallest even number of bits that holds `count`, applied again to
results that are not below `count` (cycle walking, Black & Rogaway 2002, "Ciphers with arbitrary
finite domains"). Integer operations only: the same on every device. Differs from the authors'
code: they shuffle once and repeat that order; here every epoch has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from relpos.counter import counter_hash
from relpos.data.examples import ExampleSet
from relpos.data.objective import IGNORED, Objective, Unmasked, masked
from relpos.data.passes import Shapes, outputs, passes, share
from relpos.errors import RelposError

SAMPLED = 4096  # examples, spread over all, whose lengths decide the shapes of recorded passes
# steps whose examples are drawn together: step by step, many small operations would take longer
AT_ONCE = 16
HELDOUT_SEED = 20_210_801  # held-out text has the same masks in every run
ROUNDS = 6  # of the Feistel network


@dataclass(frozen=True)
class MicroBatch:
    """What one forward pass sees: input_ids (b, n) with masks in, attention_mask (b, n) bool,
    labels (b, n) with -100 = not predicted; and where it is trained on, keys (b,), from which the
    dropout of each example is drawn, and by how much the loss of each example counts, weights (b,),
    None: all alike. One of few shapes has held (T,), the places of the tokens that are computed,
    where these are not all, see `Shapes`, and at (outputs,), those at which the head runs."""

    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor
    keys: Tensor | None = None
    weights: Tensor | None = None
    held: Tensor | None = None
    at: Tensor | None = None

    @property
    def inputs(self) -> dict[str, Tensor]:
        """What there is, by its name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def chosen(self) -> float:
        """The number of predicted tokens, by their weights where there are some."""
        predicted = (self.labels != IGNORED).sum(1)
        if self.weights is not None:
            predicted = predicted * self.weights.double()
        return predicted.sum().item()


@dataclass(frozen=True)
class Step:
    """`chosen` counts the predicted tokens of the micro-batches that are held here, by their
    weights where there are some, `tokens` the real tokens of the whole step."""

    index: int
    microbatches: list[MicroBatch]
    chosen: float
    tokens: int


@dataclass(eq=False)
class Steps(IterableDataset[Step]):
    """The steps from `start` up to but not including `stop`.

    Args:
        batch: examples of a step.
        microbatch: examples of full length in a forward pass; of shorter ones there are more.
        rank: number of this process.
        world: processes that share the steps.
        objective: what is predicted.
        few_shapes: passes have few shapes, so that they can be recorded; of one process alone.
        padding: see `passes`.
    """

    examples: ExampleSet
    seed: int
    batch: int
    microbatch: int
    vocabulary: int
    start: int = 0
    stop: int = 0
    rank: int = 0
    world: int = 1
    objective: Objective = masked
    few_shapes: bool = False
    padding: bool = True
    drawn: tuple[int, Tensor] = field(default=(-1, torch.empty(0)), init=False)
    """The last block of steps whose examples were drawn."""

    def __post_init__(self) -> None:
        if len(self.examples) == 0:
            raise RelposError(
                "data: no training pairs: no document has two sentences; "
                "packing=document takes text as it comes"
            )
        self.room = self.microbatch * self.examples.length

    def __iter__(self) -> Iterator[Step]:
        return map(self.step, range(self.start, self.stop))

    def pairs(self, index: int) -> Tensor:
        """The examples of a step, in order: (batch,)."""
        block, row = divmod(index, AT_ONCE)
        if self.drawn[0] != block:
            place = torch.arange(block * AT_ONCE * self.batch, (block + 1) * AT_ONCE * self.batch)
            count = len(self.examples)
            out = torch.empty_like(place)
            for epoch in range(int(place[0]) // count, int(place[-1]) // count + 1):
                in_epoch = place // count == epoch
                out[in_epoch] = order(count, epoch, self.seed, place[in_epoch] % count)
            self.drawn = block, out.view(AT_ONCE, self.batch)
        return self.drawn[1][row]

    def step(self, index: int) -> Step:
        """One step, or this process's share of it."""
        pairs = self.pairs(index)
        # Lengths are differences of offsets: to deal out by length, no process reads the tokens of
        # other processes' examples.
        lengths = self.examples.lengths(pairs)
        tokens = int(lengths.sum())

        def part(rows: Tensor, n: int | None = None) -> MicroBatch:
            batch = Unmasked(
                *self.examples.batch(pairs[rows], n),
                # The step is part of the key: an example has another mask each time that it is read.
                counter_hash(index, pairs[rows]),
                self.seed,
                self.vocabulary,
                self.examples.marks,
                index,
            )
            return _microbatch(batch, self.objective)

        if self.few_shapes:
            parts = []
            for rows, n, held in self.shapes.deal(lengths):
                whole = part(rows, n)
                parts.append(replace(whole, held=held, at=outputs(whole.labels, held)))
        else:
            # Stable: examples of one length are dealt out alike on every machine.
            by_length = torch.argsort(lengths, stable=True, descending=True)
            own = by_length[share(self.batch, self.rank, self.world)]
            cut = passes(lengths[own], self.room, self.padding)
            parts = [part(own[rows]) for rows in cut]
        return Step(index, parts, sum(part.chosen for part in parts), tokens)

    @cached_property
    def shapes(self) -> Shapes:
        """The shapes of recorded passes; the same whatever the step from which a run goes on."""
        sample = torch.arange(0, len(self.examples), max(1, len(self.examples) // SAMPLED))
        return Shapes.of(self.examples.lengths(sample), self.examples.length, self.room)


def order(count: int, epoch: int, seed: int, positions: Tensor) -> Tensor:
    """Which pair stands at `positions` (any shape, each in [0, count)) of an epoch: a bijection of
    [0, count)."""
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    out = _feistel(positions, half, epoch, seed)
    # at most 4 times as many values as pairs: few rounds
    while bool((outside := out >= count).any()):
        out = torch.where(outside, _feistel(out, half, epoch, seed), out)
    return out


def _feistel(x: Tensor, half: int, epoch: int, seed: int) -> Tensor:
    low = (1 << half) - 1
    left, right = x >> half, x & low
    for number in range(ROUNDS):
        left, right = right, left ^ (counter_hash(seed, epoch, number, right) & low)
    return (left << half) | right


def heldout_batches(
    examples: ExampleSet,
    microbatch: int,
    vocabulary: int,
    rank: int = 0,
    world: int = 1,
    objective: Objective = masked,
) -> Iterator[MicroBatch]:
    """All held-out examples, by length, masked as in every other run; of several processes each
    takes its share."""
    indices = torch.arange(len(examples))
    held = torch.argsort(examples.lengths(indices), stable=True, descending=True)[
        share(len(examples), rank, world)
    ]
    for part in passes(examples.lengths(held), microbatch * examples.length):
        ids, lengths = examples.batch(held[part])
        batch = Unmasked(ids, lengths, held[part], HELDOUT_SEED, vocabulary, examples.marks)
        yield _microbatch(batch, objective)


def _microbatch(batch: Unmasked, objective: Objective) -> MicroBatch:
    """Examples with masks in."""
    input_ids, labels, weights = objective.of(batch)
    return MicroBatch(input_ids, batch.real, labels, batch.keys, weights)
