"""A step is the same examples whatever the number of processes and the cut into micro-batches."""

from collections import ChainMap
from typing import Any

import numpy as np
import pytest
import torch

from relpos.data.examples import PairExamples
from relpos.data.objective import Masked
from relpos.data.steps import Step, Steps, heldout_batches
from relpos.errors import RelposError

VOCABULARY = 300


@pytest.fixture(scope="module")
def examples() -> PairExamples:
    """101 pairs of one document, between 5 and 43 tokens."""
    random = np.random.default_rng(0)
    lengths = random.integers(1, 20, 202)
    ids = random.integers(5, VOCABULARY, lengths.sum()).astype(np.uint16)
    return PairExamples(
        ids, np.concatenate([[0], np.cumsum(lengths)]), np.asarray([0]), np.asarray([202]), 32
    )


def steps(examples: PairExamples, **changed: Any) -> Steps:
    return Steps(
        examples,
        **{"seed": 1, "batch": 24, "microbatch": 5, "vocabulary": VOCABULARY, "stop": 9, **changed},
    )


Row = tuple[tuple[int, ...], ...]


def rows(step: Step) -> dict[int, Row]:
    """Key of each example → its real tokens with masks in, and its labels."""
    examples = {}
    for part in step.microbatches:
        assert part.keys is not None
        for key, ids, labels, real in zip(
            part.keys.tolist(), part.input_ids, part.labels, part.attention_mask, strict=True
        ):
            assert key not in examples
            examples[key] = tuple(ids[real].tolist()), tuple(labels[real].tolist())
    return examples


def shares(examples: PairExamples, world: int, **changed: Any) -> list[dict[int, Row]]:
    """The rows of each process in step 3."""
    return [
        rows(steps(examples, rank=rank, world=world, **changed).step(3)) for rank in range(world)
    ]


@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_processes_share_the_examples_of_a_step(examples, world):
    alone = rows(steps(examples).step(3))
    parts = shares(examples, world)
    assert len(alone) == 24
    assert dict(ChainMap(*parts)) == alone
    assert {len(part) for part in parts} == {24 // world}


@pytest.mark.parametrize("world", [2, 4])
def test_annealed_masks_are_those_of_the_step_in_every_process_and_after_every_start(
    examples, world
):
    annealed = {"objective": Masked(0.9, 0.1, 4), "stop": 4}
    whole = list(steps(examples, **annealed))
    tail = steps(examples, start=2, **annealed)
    assert [rows(step) for step in tail] == [rows(step) for step in whole[2:]]
    assert dict(ChainMap(*shares(examples, world, **annealed))) == rows(whole[3])
    assert whole[0].chosen > 2 * whole[3].chosen


@pytest.mark.parametrize("microbatch", [1, 2, 64])
@pytest.mark.parametrize("padding", [False, True])
def test_examples_masks_and_keys_do_not_depend_on_the_cut(examples, microbatch, padding):
    cut = steps(examples, microbatch=microbatch, padding=padding)
    assert rows(cut.step(3)) == rows(steps(examples).step(3))


@pytest.mark.parametrize("world", [2, 4])
def test_counts_of_the_shares_add_up(examples, world):
    alone = steps(examples).step(5)
    shared = [steps(examples, rank=rank, world=world).step(5) for rank in range(world)]
    assert sum(step.chosen for step in shared) == alone.chosen
    assert {step.tokens for step in shared} == {alone.tokens}


def test_heldout_batches_are_dealt_out(examples):
    shares = [
        sum(len(part.input_ids) for part in heldout_batches(examples, 10, VOCABULARY, rank, 3))
        for rank in range(3)
    ]
    assert shares == [33, 34, 34]


def test_an_epoch_holds_every_pair_once(examples):
    assert sorted(steps(examples, batch=101).pairs(4).tolist()) == list(range(101))


def test_steps_go_on_over_the_end_of_an_epoch(examples):
    small = torch.cat([steps(examples).pairs(index) for index in range(9)])
    large = torch.cat([steps(examples, batch=72).pairs(index) for index in range(3)])
    assert torch.equal(small, large)


def test_a_step_may_hold_more_pairs_than_there_are(examples):
    assert steps(examples, batch=500).pairs(1).bincount(minlength=101).min() >= 3


def test_starting_later_gives_the_same_steps(examples):
    whole, later = list(steps(examples)), list(steps(examples, start=6))
    assert [step.index for step in later] == [6, 7, 8]
    assert torch.equal(whole[6].microbatches[0].input_ids, later[0].microbatches[0].input_ids)


def test_micro_batches_are_sorted_by_length(examples):
    longest = [
        int(part.attention_mask.sum(1).max()) for part in steps(examples).step(0).microbatches
    ]
    assert longest == sorted(longest, reverse=True)


def test_masks_are_fresh_in_every_epoch(examples):
    first, second = steps(examples, batch=101, microbatch=101, stop=2)
    assert first.chosen != second.chosen


def test_a_step_may_have_no_chosen_token():
    ids = np.asarray([7, 8], np.uint16)
    pair = PairExamples(ids, np.asarray([0, 1, 2]), np.asarray([0]), np.asarray([2]), 16)
    # training divides by 1 then
    assert min(step.chosen for step in Steps(pair, 0, 1, 1, VOCABULARY, stop=30)) == 0


def test_heldout_masks_do_not_depend_on_the_batch(examples):
    def chosen(batch: int) -> int:
        return sum(
            int((part.labels != -100).sum())
            for part in heldout_batches(examples, batch, VOCABULARY)
        )

    assert chosen(8) == chosen(50)


def test_examples_without_a_pair_are_refused(examples):
    empty = PairExamples(examples.ids, examples.sentences, np.asarray([0]), np.asarray([1]), 32)
    with pytest.raises(RelposError, match="no training pairs"):
        steps(empty)
