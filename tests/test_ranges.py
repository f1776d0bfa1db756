"""Annotations say what a value may be."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest

from relpos.errors import RelposError
from relpos.ranges import (
    Count,
    Names,
    Positive,
    Rate,
    Share,
    between,
    check,
    checked,
    describe,
    fits,
    with_words,
)


@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        (Count, [1, 10**12], [0, -1, 1.0, True, "1", None]),
        (Positive, [1, 1e-9], [0, -1.0, float("nan"), float("inf"), "1", False]),
        (Rate, [0, 0.0, 0.5], [1, -0.1]),
        (Share, [1e-9, 0.5], [0, 1]),
        (Count | None, [1, None], [0, "null"]),
        (Literal["clamp", "zero"], ["zero"], ["zeros", 0, None]),
        (Literal[1, "auto"], [1, "auto"], [True, 1.0]),
        (str, ["a", "", 12], [None, True, ["a"]]),
        (bool, [True, False], [0, 1, "true"]),
        (Sequence[Annotated[int, between(1, 100)]], [[], [1, 100], (5,)], [[0], [1, 101], 5, "5"]),
        (tuple[Rate, Rate], [[0.9, 0.999]], [[0.9], [0.9, 1], 0.9]),
        (Mapping[str, Count], [{}, {"a": 1}], [{"a": 0}, [1]]),
        (Any, [None, object()], []),
    ],
)
def test_kind_and_range_decide_whether_a_value_fits(annotation, right, wrong):
    assert all(fits(value, annotation) for value in right)
    assert not any(fits(value, annotation) for value in wrong)


def test_a_message_says_what_is_expected_in_one_line():
    assert (
        describe(Annotated[int, between(1, 10_000)] | None)
        == "a whole number from 1 to 10,000 or null"
    )
    with pytest.raises(
        RelposError, match=r"^outside=clmp: clamp or zero is expected\. Did you mean 'clamp'\?$"
    ):
        check("outside", "clmp", Literal["clamp", "zero"])
    with pytest.raises(
        RelposError, match=r"^threads=true: a whole number of 1 or more or null is expected$"
    ):
        check("threads", True, Count | None)


def test_a_checked_function_refuses_before_it_runs():
    calls = []

    @checked
    def work(size: Count, name: str = "a") -> int:
        calls.append(size)
        return size

    assert work(3) == work(size=3, name="b") == 3
    with pytest.raises(RelposError, match="^size=0: a whole number of 1 or more is expected$"):
        work(0)
    assert calls == [3, 3]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, None), ("none", ["none"]), (3, ["3"]), (["a", 1], ["a", "1"]), ([], [])],
)
def test_one_name_is_typed_without_brackets(value, expected):
    assert fits(value, Names | None)
    assert with_words({"rows": value}, {"rows": Names | None}) == {"rows": expected}
    assert with_words({"rows": [3]}, {"rows": Sequence[str]}) == {"rows": ["3"]}


def test_a_group_of_keys_is_no_name():
    with pytest.raises(
        RelposError, match=r"^rows=\{'a': 1\}: a word or a list \[a word, …\] is expected$"
    ):
        check("rows", {"a": 1}, Names)
