"""Sums of schemes: facts beyond the general laws."""

from functools import partial

import pytest
import torch
from torch import Tensor

from relpos.errors import RelposError
from relpos.model.kernels import eager
from relpos.model.position import (
    XL,
    Absolute,
    Composite,
    Dynamic,
    Fixed,
    Key,
    Layers,
    Merge,
    Pope,
    Position,
    Rope,
    Scheme,
    Terms,
    Tisa,
)
from schemes import SHAPE, numbers, refusal

N = 7


def scores(terms: Terms) -> Tensor:
    return eager.scores(None, None, terms, torch.zeros(2, SHAPE.heads, N, SHAPE.head_dim).double())


def terms_of(scheme: Scheme) -> Terms:
    return scheme.terms(1, *numbers(2, 2, SHAPE.heads, N, SHAPE.head_dim), scheme.prepare(N))


def merged(*parts: Position) -> Merge:
    scheme = Merge(SHAPE, parts).double()
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.normal_()
    return scheme


def assert_is_sum(scheme: Merge) -> None:
    parts = sum(scores(terms_of(part)) for part in scheme.parts)
    torch.testing.assert_close(scores(terms_of(scheme)), parts)


@pytest.mark.parametrize("outside", ["clamp", "zero"])
@pytest.mark.parametrize("widths", [(1, 3), (3, 1), (2, 2), (0, 9)])
def test_scores_of_a_sum_are_sums_of_scores_whatever_the_widths(outside, widths):
    parts = [
        partial(kind, k=k, outside=outside) for kind in (Dynamic, Key, Composite) for k in widths
    ]
    scheme = merged(Tisa, *parts)
    assert_is_sum(scheme)


def test_windows_that_end_differently_are_added():
    scheme = merged(
        partial(Dynamic, k=2, outside="clamp", value=True), partial(Key, k=1, outside="zero"), XL
    )
    assert_is_sum(scheme)
    assert terms_of(scheme).outside == "clamp"  # of the values


def test_tables_of_values_that_end_differently_are_refused():
    scheme = merged(
        *(partial(Dynamic, outside=outside, value=True) for outside in ("clamp", "zero"))
    )
    with pytest.raises(
        RelposError, match=r"^tables of values with outside=clamp and outside=zero cannot be added$"
    ):
        terms_of(scheme)


def test_the_shortest_part_limits_the_length():
    assert merged(Tisa, Dynamic).max_length is None
    scheme = merged(Tisa, Absolute)
    assert scheme.max_length == SHAPE.max_positions
    with pytest.raises(RelposError, match="^Absolute has 16 positions"):
        scheme.check_length(17)


class Unscaled(Scheme):
    scale = None
    projections = frozenset("v")


def test_parts_with_another_scale_are_refused_by_name():
    message = (
        "Merge: Tisa multiplies q·k by 0.5, Unscaled by nothing (it has none); they have no sum"
    )
    assert refusal(merged, Tisa, Unscaled) == message


def test_no_parts_are_refused():
    with pytest.raises(RelposError, match="^Merge needs at least one part$"):
        Merge(SHAPE, [])


def test_each_part_receives_the_step():
    steps = []

    class Listening(Scheme):
        def begin_step(self, step: int) -> None:
            steps.append(step)

    merged(Listening, Tisa, Listening).begin_step(3)
    assert steps == [3, 3]


def test_a_merge_inside_a_merge_is_the_same_sum():
    inner = merged(partial(Merge, parts=[Tisa, Fixed]), Dynamic)
    flat = merged(Tisa, Fixed, Dynamic)
    for target, source in zip(flat.parameters(), inner.parameters(), strict=True):
        target.data.copy_(source)
    torch.testing.assert_close(scores(terms_of(inner)), scores(terms_of(flat)))
    assert inner.count(SHAPE) == flat.count(SHAPE)


@pytest.mark.parametrize("behind", [Rope, XL, Pope])
def test_turning_queries_that_are_wider_already_is_refused_by_name(behind):
    with pytest.raises(RelposError, match=f"{behind.__name__} turns queries"):
        Merge(SHAPE, [partial(Merge, parts=[Pope, Tisa]), behind])


@pytest.mark.parametrize(
    ("parts", "message"), [("ab", "a list"), (["rope"], "_target_"), (Rope, "a list")]
)
def test_parts_that_are_no_list_of_schemes_are_refused(parts, message):
    for kind in (Merge, Layers):
        with pytest.raises(RelposError, match=message):
            kind(SHAPE, parts)
