"""Shaw's value table: facts beyond the general laws."""

import math

import torch

from relpos.model.position import Dynamic
from schemes import SHAPE


def test_the_option_leaves_the_query_table_as_it_is():
    torch.manual_seed(0)
    plain = Dynamic(SHAPE, k=2)
    torch.manual_seed(0)
    shaw = Dynamic(SHAPE, k=2, value=True)
    assert torch.equal(plain.query, shaw.query)
    assert set(plain.state_dict()) == {"query"}


def test_initial_kernels_are_glorot_uniform():
    value = Dynamic(SHAPE, k=50, value=True).value
    assert value is not None
    bound = math.sqrt(6 / (101 + SHAPE.head_dim))
    assert 0.97 * bound < value.abs().max() <= bound


def test_the_next_token_stands_in_row_k_plus_1():
    """With all attention on one offset, the row of that offset is what leaves the head."""
    from relpos.model.kernels import eager

    scheme = Dynamic(SHAPE, k=2, value=True)
    value = scheme.terms(
        0, *torch.zeros(2, 1, SHAPE.heads, 4, SHAPE.head_dim), scheme.prepare(4)
    ).value
    assert value is not None
    # token i attends to i + 1, the last one to the first
    right = torch.eye(4).roll(1, 1)[None, None]
    output = eager._weighted(right, value, "clamp")[0, 0]
    assert torch.equal(output[0], value[3])
    assert torch.equal(output[3], value[0])
