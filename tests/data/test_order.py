"""The order of the pairs is a bijection, another one for every epoch and seed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from relpos.data.steps import order


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 3000), epoch=st.integers(0, 100), seed=st.integers(0, 2**31))
def test_every_pair_stands_at_one_place(count, epoch, seed):
    assert sorted(order(count, epoch, seed, torch.arange(count)).tolist()) == list(range(count))


def test_the_order_can_be_computed_at_single_places():
    whole = order(1000, 3, 1, torch.arange(1000))
    assert order(1000, 3, 1, torch.tensor([17, 999])).tolist() == whole[[17, 999]].tolist()


@pytest.mark.parametrize(("epoch", "seed"), [(1, 0), (0, 1)])
def test_an_epoch_and_a_seed_have_an_order_of_their_own(epoch, seed):
    places = torch.arange(1000)
    assert not torch.equal(order(1000, epoch, seed, places), order(1000, 0, 0, places))


def test_thirty_one_million_pairs_need_no_table():
    drawn = order(31_000_000, 0, 0, torch.arange(30_999_000, 31_000_000))
    assert len(set(drawn.tolist())) == 1000


def test_neighbouring_places_hold_distant_pairs():
    drawn = order(100_000, 0, 0, torch.arange(1000)).double()
    assert 45_000 < drawn.mean() < 55_000
