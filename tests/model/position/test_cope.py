"""CoPE's counted positions: where they are places, where they end, and when both sides are
alike."""

import torch

from relpos.model.position import Cope
from schemes import SHAPE, check_loops, model_of

N = 7


def added(scheme: Cope, k: float) -> torch.Tensor:
    """T (n, n) of layer 1 and head 0 for random queries and keys that each query likes as much: q·k
    = k² · √head_dim."""
    q = torch.full((1, SHAPE.heads, N, SHAPE.head_dim), k, dtype=torch.float64)
    dense = scheme.terms(1, q, q, None).dense
    assert dense is not None
    return dense[0, 0]


def filled(p_max: int) -> Cope:
    scheme = Cope(SHAPE, p_max).double()
    torch.nn.init.normal_(scheme.table)
    return scheme


def test_open_gates_count_tokens():
    """Gates of 1: p = |i − j| + 1, a table of relative positions."""
    scheme, by_row = filled(N + 1), 10 * torch.ones(SHAPE.head_dim).double()
    places = (torch.arange(N)[None, :] - torch.arange(N)[:, None]).abs() + 1
    left, right = ((table @ by_row)[places] for table in scheme.table[1])
    torch.testing.assert_close(added(scheme, 10.0), left.tril() + right.triu(1))


def test_at_the_start_nothing_is_added_and_the_tables_have_a_gradient():
    scheme = Cope(SHAPE).double()
    scores = added(scheme, 1.0)
    assert not scores.any()
    scores.sum().backward()
    assert scheme.table.grad is not None
    assert scheme.table.grad[1].any()
    assert not scheme.table.grad[0].any()


def test_values_equal_the_loops_where_positions_end():
    check_loops(
        model_of("cope", p_max=3).eval().encoder, ids=[7, 9, 5, 22, 0, 12, 8], real=[True] * 7
    )
