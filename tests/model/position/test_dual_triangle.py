"""Dual triangle attention: what each head sees."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from relpos.errors import RelposError
from relpos.model.kernels import eager
from relpos.model.position import Absolute, Alibi, DualTriangle, Merge, Pope, Rope
from schemes import SHAPE, batch, check_loops, near, network, preset

N = 70
SPLIT = partial(DualTriangle, heads="split")


@pytest.mark.parametrize("heads", [1, 2, 5])
def test_the_first_half_of_the_heads_sees_the_left_side_and_the_others_the_right_one(heads):
    scheme, q = DualTriangle(replace(SHAPE, heads=heads)), torch.zeros(1, heads, N, 4)
    seen = (
        eager.probabilities(eager.scores(q, q, scheme.terms(0, q, q, scheme.prepare(N)), q), None)[
            0
        ]
        > 0
    )
    left = torch.ones(N, N).tril().bool()
    for head in range(heads):
        assert torch.equal(seen[head], left if head < heads / 2 else left.t())


def test_split_heads_are_twice_as_many_that_take_turns_in_looking_left_and_right():
    """Heads 0, 2 of the network with four of them look left, 1 and 3 right: its first half is put
    in their places."""
    split, whole = network(SPLIT).eval().encoder, network(DualTriangle, heads=4).eval().encoder
    whole.load_state_dict(split.state_dict())
    turns = torch.tensor([0, 2, 1, 3])
    with torch.no_grad():
        for attention in (layer.attention for layer in whole.layers):
            for part in (attention.project.weight, attention.project.bias):
                part.copy_(part.unflatten(0, (3, 4, -1))[:, turns].flatten(0, 2))
            attention.output.weight.copy_(
                attention.output.weight.unflatten(1, (4, -1))[:, turns.argsort()].flatten(1)
            )
    ids, mask = batch()
    near(split(ids, mask)[mask.bool()], whole(ids, mask)[mask.bool()])


@pytest.mark.parametrize(
    ("conv", "parts"), [("none", [SPLIT, Rope]), ("convbert", [Absolute, Rope, SPLIT])]
)
def test_heads_are_split_behind_their_rotation(conv, parts):
    """Also where a convolution replaces the other heads."""
    encoder = network(partial(Merge, parts=parts), preset("conv", conv)).eval().encoder
    check_loops(encoder)


@pytest.mark.parametrize("parts", [[SPLIT, Alibi], [Alibi, SPLIT], [SPLIT, SPLIT]])
def test_parts_that_would_find_other_heads_are_refused(parts):
    with pytest.raises(
        RelposError,
        match=r"^DualTriangle makes two heads of each, and (Alibi|DualTriangle) acts on the scores of whole ones$",
    ):
        Merge(SHAPE, parts)


def test_heads_that_cannot_be_halved_are_refused():
    with pytest.raises(
        RelposError,
        match=r"^DualTriangle splits heads: head_dim = hidden / heads must be even, not 3$",
    ):
        DualTriangle(replace(SHAPE, head_dim=3), "split")
    with pytest.raises(
        RelposError, match="^DualTriangle splits heads: another scheme makes queries wider"
    ):
        Merge(SHAPE, [SPLIT, Pope])
