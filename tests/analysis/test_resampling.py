"""Intervals by drawing anew, against what theory says of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from relpos.analysis.resampling import (
    crossed_interval,
    mean_interval,
    multi_bootstrap,
    pooled_interval,
    ratio_interval,
)


def half(interval: Sequence[float]) -> float:
    """Half the width of an interval."""
    return (interval[1] - interval[0]) / 2


def near(error: float) -> Any:
    """About half the width of an interval, by theory."""
    return pytest.approx(1.96 * error, rel=0.1)


def test_the_interval_over_pairs_is_wilsons_within_each_paradigm():
    low, high = pooled_interval([np.concatenate((np.ones(50), np.zeros(50)))]) or (0, 0)
    assert (low, high) == pytest.approx((0.404, 0.596), abs=0.001)
    pooled = pooled_interval([np.repeat([1.0, 0.0], 50)] * 4) or (0, 0)
    assert pooled == pytest.approx((0.452, 0.548), abs=0.001)  # half as wide: four times as many


def test_paradigms_that_are_all_right_or_all_wrong_are_no_proof():
    low, high = pooled_interval([np.ones(60), np.ones(60), np.zeros(60)]) or (0, 0)
    assert 0.62 < low < 2 / 3 < high < 0.70
    assert pooled_interval([np.ones(60)]) == pytest.approx([1 - 0.0602, 1], abs=1e-3)
    # ties are a law, not luck
    assert pooled_interval([np.full(60, 0.5), np.full(60, 0.5)]) == [0.5, 0.5]


def test_the_crossed_interval_covers_the_spread_of_networks_and_of_examples():
    chance = np.random.default_rng(0)
    of_networks, of_examples = chance.normal(0, 1, (8, 1)), chance.normal(0, 3, (1, 200))
    values = of_networks + of_examples
    error = np.sqrt(of_networks.var() / 8 + of_examples.var() / 200)
    assert half(crossed_interval(values, np.ones_like(values))) == near(error)
    # each example is a group by itself
    fixed = crossed_interval(values, np.ones_like(values), groups=list(range(200)))
    assert half(fixed) == near(of_networks.std() / np.sqrt(8))


def test_the_interval_of_a_ratio_covers_what_theory_says():
    values = np.random.default_rng(0).normal(3, 2, 400)
    assert half(ratio_interval(values, np.ones(400))) == near(values.std() / 20)


def test_the_multi_bootstrap_knows_both_sources_of_spread():
    chance = np.random.default_rng(1)
    seeds, examples = chance.normal(0, 1.0, (20, 1)), chance.normal(0, 2.0, (1, 400))
    margin = half(multi_bootstrap(10 + seeds + examples, 1_000, np.mean))
    assert margin == near(np.sqrt(seeds.var() / 20 + examples.var() / 400))
    assert half(multi_bootstrap(10 + 0 * seeds + examples, 1_000, np.mean)) < 0.8 * margin


def test_the_multi_bootstrap_takes_a_metric():
    targets = np.tile([0.0, 1.0], 50)
    table = np.stack([np.stack([targets, targets], -1)] * 3)
    interval = multi_bootstrap(table, 50, lambda pairs: float(np.mean(pairs[:, 0] == pairs[:, 1])))
    assert interval == (1.0, 1.0)


def test_interval_of_the_mean_is_near_the_normal_one():
    values = [30.0, 32.0, 37.0, 31.0, 33.0, 34.0, 29.0, 35.0, 33.5, 30.5]
    interval = mean_interval(values)
    half = 1.96 * np.std(values) / np.sqrt(10)  # a bootstrap knows the spread with 1/n
    assert interval == (
        pytest.approx(np.mean(values) - half, abs=0.25),
        pytest.approx(np.mean(values) + half, abs=0.25),
    )


@pytest.mark.parametrize(("n", "share"), [(3, 0.8), (10, 0.9)])
def test_few_seeds_give_intervals_that_are_too_narrow_by_as_much_as_the_guide_says(n, share):
    chance = np.random.default_rng(0)
    intervals = [mean_interval(list(chance.normal(size=n))) for _ in range(150)]
    hits = [ends is not None and ends[0] <= 0 <= ends[1] for ends in intervals]
    assert np.mean(hits) == pytest.approx(share, abs=0.08)
