"""Batches: every row once an epoch, the same from any start, padded to their own longest."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relpos.data.task_batches import (
    Encoded,
    TuningSteps,
    collate,
    epoch_batches,
    evaluation_batches,
)


def encoded(lengths: list[int], length: int = 128, labels: bool = True) -> Encoded:
    ids = [np.full(n, 5 + row, dtype=np.int32) for row, n in enumerate(lengths)]
    seconds = [n // 2 for n in lengths]
    return Encoded(ids, seconds, torch.arange(len(lengths)) if labels else None, 0, length)


def random_lengths(count: int) -> torch.Tensor:
    return torch.randint(3, 128, (count,), generator=torch.Generator().manual_seed(count))


def test_a_batch_is_padded_to_eight_beyond_its_longest():
    batch = collate(encoded([3, 10, 60]), torch.tensor([1, 0]))
    assert batch["input_ids"].shape == (2, 16)
    assert batch["attention_mask"].sum(1).tolist() == [10, 3]
    assert batch["labels"].tolist() == [1, 0]
    assert not batch["input_ids"][~batch["attention_mask"]].any()
    assert batch["token_types"][0].tolist() == [0] * 5 + [1] * 5 + [0] * 6


@settings(deadline=None, max_examples=10)
@given(
    count=st.integers(1, 300),
    batch=st.integers(1, 40),
    seed=st.integers(0, 5),
    epoch=st.integers(0, 3),
)
def test_an_epoch_is_every_row_once(count, batch, seed, epoch):
    batches = epoch_batches(count, seed, epoch, batch)
    assert sorted(torch.cat(batches).tolist()) == list(range(count))
    assert [len(rows) for rows in batches[:-1]] == [batch] * ((count - 1) // batch)


def test_a_seed_and_an_epoch_have_one_order_of_their_own():
    draws = [
        torch.cat(epoch_batches(200, *key, 32)).tolist() for key in ((0, 0), (0, 1), (1, 0), (0, 0))
    ]
    assert draws[0] == draws[3]
    assert draws[0] != draws[1] != draws[2] != draws[0]


def test_a_label_that_goes_with_the_length_is_spread_evenly_over_the_batches():
    # the long rows are of the one class, the short ones of the other
    labels = (torch.arange(3_200) < 1_600).double()
    data = encoded(sorted(random_lengths(3_200).tolist(), reverse=True))
    means = [
        torch.cat([labels[part["labels"]] for part in step.microbatches]).mean()
        for step in TuningSteps(data, 0, 32, 100, 16)
    ]
    expected = 0.25 / 32  # variance of the mean of 32 labels drawn at random
    assert 0.6 * expected < float(torch.stack(means).var()) < 1.5 * expected


def test_rows_of_a_forward_pass_are_of_like_length():
    steps = list(TuningSteps(encoded(random_lengths(2_000).tolist()), 0, 32, 62, 16))
    parts = [part for step in steps for part in step.microbatches]
    padded = sum(part["input_ids"].numel() for part in parts)
    real = sum(int(part["attention_mask"].sum()) for part in parts)
    assert padded < 1.6 * real  # in one pass a batch it would be 1.9 times as many


def fifty(start: int = 0) -> TuningSteps:
    """Steps of 7 of 50 rows."""
    return TuningSteps(encoded(random_lengths(50).tolist()), 4, 7, 20, 2, start)


def test_a_step_knows_its_rows_and_their_keys():
    for step in fifty():
        keys = [int(key) for part in step.microbatches for key in part["keys"]]
        labels = sum(len(part["labels"]) for part in step.microbatches)
        assert len(set(keys)) == labels == step.rows == (1 if step.index % 8 == 7 else 7)


@pytest.mark.parametrize("start", [0, 1, 7, 8, 20])
def test_steps_are_the_same_from_any_start(start):
    whole, tail = list(fifty()), list(fifty(start))
    assert [step.index for step in tail] == list(range(start, 20))
    for step, expected in zip(tail, whole[start:], strict=True):
        assert all(
            torch.equal(a["keys"], b["keys"])
            for a, b in zip(step.microbatches, expected.microbatches, strict=True)
        )


def test_outputs_of_an_evaluation_can_be_put_back_in_order():
    data = encoded(random_lengths(50).tolist(), labels=False)
    outputs = torch.zeros(50, dtype=torch.int64)
    for batch in evaluation_batches(data, 8):
        outputs[batch["rows"]] += batch["input_ids"][:, 0]
        assert "labels" not in batch
    assert outputs.tolist() == [5 + row for row in range(50)]
