"""T5's buckets: facts beyond the general laws."""

import math

import pytest
import torch

from reference_offsets import t5_bucket
from relpos.model.position import T5
from relpos.model.position.t5 import bucket, bucket_edges
from relpos.model.shape import Shape


def test_wide_buckets_begin_where_the_authors_do():
    assert bucket_edges(32, 128) == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]


@pytest.mark.parametrize(
    ("buckets", "max_distance"), [(32, 128), (32, 20), (30, 128), (8, 1000), (64, 40), (4, 2)]
)
def test_buckets_equal_the_formula_with_logarithms(buckets, max_distance):
    offsets = torch.arange(-300, 301)
    numbers = bucket(offsets, torch.tensor(bucket_edges(buckets, max_distance)))
    assert numbers.tolist() == [t5_bucket(o, buckets, max_distance) for o in offsets.tolist()]


def test_bucket_16_is_never_used_and_all_others_are():
    numbers = bucket(torch.arange(-500, 501), torch.tensor(bucket_edges()))
    assert set(range(32)) - set(numbers.tolist()) == {16}


def test_initial_biases_are_glorot_uniform():
    torch.manual_seed(0)
    table = T5(Shape(64, 1, 64, 64, 1, 8)).table
    bound = math.sqrt(6 / (32 + 64))
    assert 0.97 * bound < table.abs().max() <= bound
