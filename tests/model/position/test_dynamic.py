"""Shaw's value table: facts beyond the general laws."""

import math

import pytest
import torch

from relpos.errors import RelposError
from relpos.model.position import Dynamic
from schemes import SHAPE, batch, model_of


def test_the_option_leaves_the_query_table_as_it_is() -> None:
    torch.manual_seed(0)
    plain = Dynamic(SHAPE, k=2)
    torch.manual_seed(0)
    shaw = Dynamic(SHAPE, k=2, value=True)
    assert torch.equal(plain.query, shaw.query)
    assert set(plain.state_dict()) == {"query"}


def test_initial_kernels_are_glorot_uniform() -> None:
    value = Dynamic(SHAPE, k=50, value=True).value
    assert value is not None
    bound = math.sqrt(6 / (101 + SHAPE.head_dim))
    assert 0.97 * bound < value.abs().max() <= bound


def test_a_table_of_zeros_is_none() -> None:
    shaw, plain = model_of("shaw").eval(), model_of("dynamic").eval()
    with torch.no_grad():
        shaw.encoder.position.value.zero_()
    plain.load_state_dict({key: x for key, x in shaw.state_dict().items() if not key.endswith("position.value")})
    ids, mask = batch()
    torch.testing.assert_close(shaw(ids, mask), plain(ids, mask))


def test_the_next_token_stands_in_row_k_plus_1() -> None:
    """With all attention on one offset, the row of that offset is what leaves the head."""
    from relpos.model.kernels import eager

    scheme = Dynamic(SHAPE, k=2, value=True)
    value = scheme.terms(0, *torch.zeros(2, 1, SHAPE.heads, 4, SHAPE.head_dim), scheme.prepare(4)).value
    assert value is not None
    right = torch.eye(4).roll(1, 1)[None, None]  # token i attends to i + 1, the last one to the first
    found = eager._weighted(right, value, "clamp")[0, 0]
    assert torch.equal(found[0], value[3])
    assert torch.equal(found[3], value[0])


def test_a_kernel_that_does_not_serve_it_says_so() -> None:
    model = model_of("shaw", kernel="fused")
    with pytest.raises(RelposError, match="^attention kernel 'fused' does not serve this position scheme on cpu"):
        model(batch()[0])
