"""Inkling's profiles: as Transformers computes them, and where they end."""

import torch

from relpos.model.kernels import eager
from relpos.model.position import Inkling
from schemes import SHAPE, given


def added(scheme: Inkling, n: int) -> torch.Tensor:
    """T (B, H, n, n) of one layer."""
    q = torch.zeros(2, SHAPE.heads, n, SHAPE.head_dim, dtype=torch.float64)
    terms = scheme.terms(1, q, q, scheme.see(1, given(SHAPE, 2, n), scheme.prepare(n)))
    return eager.scores(None, None, terms, q)


def test_the_left_side_is_that_of_transformers():
    from transformers.models.inkling.modeling_inkling import InklingRelativeLogits

    n, extent, rank = 9, 4, 3
    scheme, theirs = (
        Inkling(SHAPE, rank, extent).double(),
        InklingRelativeLogits(rank, extent + 1).double(),
    )
    with torch.no_grad():
        theirs.proj.copy_(scheme.profiles[1, :, : extent + 1].flip(1))  # by distance to the left
        scheme.profiles[:, :, extent + 1 :] = 0
    x, place = given(SHAPE, 2, n).x, torch.arange(n)
    expected = theirs((x @ scheme.mix[1].t()).unflatten(2, (SHAPE.heads, rank)), place, place)
    torch.testing.assert_close(added(scheme, n), expected, atol=1e-10, rtol=1e-10)
