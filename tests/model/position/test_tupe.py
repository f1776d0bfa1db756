"""TUPE: what becomes of [CLS], and the counts."""

import torch

from relpos.model.position import Tupe
from schemes import SHAPE


def dense(scheme: Tupe, n: int = 7) -> torch.Tensor:
    return scheme.prepare(n)[0].detach()


def moved(scheme: Tupe, row: int) -> torch.Tensor:
    """Where D (n, n) changes in any head when a row of the table does."""
    before = dense(scheme)
    with torch.no_grad():
        scheme.table[row] += torch.randn(SHAPE.hidden)
    return (dense(scheme) != before).any(0)


def test_row_0_of_the_table_is_the_first_row_of_the_scores_and_row_1_the_rest_of_the_first_column():
    scheme = Tupe(SHAPE)
    by_row, by_column = moved(scheme, 0), moved(scheme, 1)
    assert by_row[0].all()
    assert not by_row[1:].any()
    assert by_column[1:, 0].all()
    assert not by_column[0].any()
    assert not by_column[:, 1:].any()
    assert (dense(scheme)[:, 0] == dense(scheme)[:, :1, 0]).all()
    assert (dense(scheme)[:, 1:, 0] == dense(scheme)[:, 1:2, 0]).all()


def test_the_relative_term_has_a_number_for_each_side_of_cls():
    scheme = Tupe(SHAPE, relative=True)
    with torch.no_grad():
        scheme.table.zero_()
        scheme.buckets.copy_(torch.arange(33.0)[:, None].expand(33, 2))
    scores = dense(scheme, n=12)[0]
    assert (scores[0] == 16).all()
    assert (scores[1:, 0] == 32).all()
    assert scores[3, 1:].tolist() == [2, 1, 0, 17, 18, 19, 20, 21, 22, 23, 24]


def test_half_precision_does_not_reach_the_table():
    scheme = Tupe(SHAPE)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = scheme.prepare(7)
    assert torch.equal(inside, scheme.prepare(7))
