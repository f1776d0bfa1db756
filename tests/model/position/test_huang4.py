"""Huang et al.'s method 4: beside the general laws, what ties it to its relatives."""

import torch

from relpos.model.kernels import eager
from relpos.model.position import Dynamic, Huang4, Key, Terms
from relpos.model.shape import Shape

SHAPE = Shape(heads=2, head_dim=4, hidden=8, embedding=6, layers=2, max_positions=16)


def test_it_is_shaws_term_plus_the_keys_with_tied_tables() -> None:
    n = 9
    huang, shaw, key = Huang4(SHAPE), Dynamic(SHAPE, k=SHAPE.max_positions - 1), Key(SHAPE, k=SHAPE.max_positions - 1)
    with torch.no_grad():
        huang.table.normal_()
        shaw.query.copy_(huang.table.transpose(1, 2))
        key.key.copy_(huang.table.transpose(1, 2).flip(2))
    q, k = torch.randn(2, 3, SHAPE.heads, n, SHAPE.head_dim)
    terms = shaw.terms(1, q, k, shaw.prepare(n)).multiplied().query, key.terms(1, q, k, key.prepare(n)).multiplied().key
    expected = eager.scores(None, None, Terms(query=terms[0], key=terms[1]), q)
    torch.testing.assert_close(eager.scores(None, None, huang.terms(1, q, k, huang.prepare(n)), q), expected)


def test_a_shorter_sequence_reads_the_middle_of_the_table() -> None:
    huang = Huang4(SHAPE)
    x = torch.randn(1, SHAPE.heads, 12, SHAPE.head_dim)
    parts = (x[:, :, :n] for n in (12, 5))
    long, short = (eager.scores(None, None, huang.terms(0, part, part, huang.prepare(part.shape[2])), part) for part in parts)
    torch.testing.assert_close(long[..., :5, :5], short)
