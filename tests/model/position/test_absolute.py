"""A table of positions that begins with heads that look at their neighbours."""

from functools import partial

import pytest
import torch

from relpos.errors import RelposError
from relpos.model.conv import ConvQKV
from relpos.model.position import Absolute
from relpos.model.shape import Shape
from schemes import build

SIZE = {"layers": 2, "hidden": 64, "embedding": 64, "heads": 4, "ffn": 64, "max_positions": 40}


def begun(shape: Shape) -> Absolute:
    return Absolute(shape, std=0.1, start="neighbours")


def test_heads_begin_at_the_neighbours_before_and_behind():
    encoder = build(SIZE, begun, 50).encoder
    table = encoder.position.table.detach()
    project = encoder.layers[0].attention.project.weight.detach()
    q, k = ((table @ project[rows : rows + 64].T).view(40, 4, 16) for rows in (0, 64))
    best = torch.einsum("ihd,jhd->hij", q, k).argmax(2)
    for head, offset in enumerate((-1, 1, -2, 2)):
        assert best[head, 2:-2].tolist() == list(range(2 + offset, 38 + offset))
    assert table.pow(2).mean().sqrt() == pytest.approx(0.1, rel=0.05)
    other = encoder.layers[1].attention.project.weight[:64].detach()
    assert other.std() == pytest.approx(0.02, rel=0.05)  # of which nothing else begins


def test_a_start_at_the_neighbours_needs_maps_of_queries_and_keys():
    with pytest.raises(
        RelposError, match=r"^position.start=neighbours: the first layer has no maps"
    ):
        build(SIZE, begun, 50, partial(ConvQKV, k=2))
    with pytest.raises(RelposError, match=r"^position.start=neighbours: needs size.embedding ="):
        build({**SIZE, "embedding": 32}, begun, 50)
