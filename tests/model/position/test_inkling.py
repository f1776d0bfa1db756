"""Inkling's profiles: as Transformers computes them, and where they end."""

import torch

from relpos.model.position import Inkling
from schemes import SHAPE, added, given


def test_the_left_side_is_that_of_transformers():
    from transformers.models.inkling.modeling_inkling import InklingRelativeLogits

    n, extent, rank = 9, 4, 3
    scheme = Inkling(SHAPE, rank, extent).double()
    theirs = InklingRelativeLogits(rank, extent + 1).double()
    with torch.no_grad():
        theirs.proj.copy_(scheme.profiles[1, :, : extent + 1].flip(1))  # by distance to the left
        scheme.profiles[:, :, extent + 1 :] = 0
    seen, place = given(SHAPE, 2, n), torch.arange(n)
    expected = theirs((seen.x @ scheme.mix[1].t()).unflatten(2, (SHAPE.heads, rank)), place, place)
    torch.testing.assert_close(added(scheme, seen), expected, atol=1e-10, rtol=1e-10)
