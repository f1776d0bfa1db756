"""Each kind of kernel is recognised, and noise has few."""

import numpy as np
import pytest

from relpos.analysis.kernels import kind, kinds_by_chance

OFFSETS = np.arange(-8, 9)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (0.02 * OFFSETS, "uniform"),
        (3.0 * (OFFSETS == -1), "previous"),
        (3.0 * (OFFSETS == 1), "next"),
        (3.0 * (abs(OFFSETS) == 1) + 0.1 * (OFFSETS == 1), "both"),
        (-3.0 * (OFFSETS == 0), "avoiding"),
        (-3.0 * (OFFSETS == 1), "avoiding"),
        (0.3 * OFFSETS, "graded"),
        (-np.log1p(np.exp(OFFSETS)), "graded"),
        (np.sin(3.0 * OFFSETS) * 2, "other"),
    ],
)
def test_kinds_of_kernels(kernel, expected):
    assert kind(kernel) == expected


def test_a_mirrored_kernel_is_of_the_mirrored_kind():
    previous = 3.0 * (OFFSETS == -1) + 0.1 * np.cos(OFFSETS)
    assert [kind(previous), kind(previous[::-1])] == ["previous", "next"]


def test_few_kernels_in_random_order_have_a_kind():
    noise = np.random.default_rng(0).standard_normal((200, 17))
    assert kinds_by_chance(noise) < 0.15
    narrow = noise[:, 6:11]
    padded = np.pad(narrow, ((0, 0), (6, 6)), constant_values=np.nan)
    assert kinds_by_chance(padded) == pytest.approx(kinds_by_chance(narrow), abs=0.02)
    assert [kind(kernel) for kernel in noise].count("other") > 150


def test_offsets_without_a_value_change_nothing():
    padded = np.pad(3.0 * (OFFSETS == -1), 4, constant_values=np.nan)
    assert kind(padded) == "previous"


def test_a_kernel_of_three_offsets_has_a_kind():
    assert [kind([3.0, 0.0, 0.0]), kind([0.0, 0.0, 3.0]), kind([3.0, 0.0, 3.0])] == [
        "previous",
        "next",
        "avoiding",
    ]


def test_offset_0_is_known_where_one_side_is_hidden():
    for place, expected in ((-1, "previous"), (-5, "other")):
        kernel = np.where(OFFSETS > 0, np.nan, 3.0 * (place == OFFSETS))
        assert kind(kernel) == expected
        assert kind(kernel[::-1]) == expected.replace("previous", "next")
