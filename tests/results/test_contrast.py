"""Errors that are estimated from all rows of a scale, against formulas and simulations; covers
contrast."""

import os
from collections.abc import Collection, Mapping
from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.special import digamma, polygamma
from statsmodels.regression.linear_model import OLS

from relpos.results import contrast
from relpos.results.contrast import Units, spread
from relpos.results.statistics import Difference, benjamini_hochberg

TIMES = 500 if os.environ.get("RELPOS_FULL") else 60
SEVERAL = 200
COVERAGE = 1_000
SEEDS = pytest.mark.parametrize(
    "seeds", [3, *(pytest.param(seeds, marks=pytest.mark.full) for seeds in (5, 10))]
)
Rows = dict[str, dict[int, float]]


def difference(
    rows: Mapping[str, Units], first: str, second: str, apart: Collection[str] = ()
) -> Difference | None:
    return contrast.contrast(rows, {first: 1.0, second: -1.0}, apart)


def rows_of(scores: np.ndarray) -> Rows:
    """Rows by their places, with seeds from 0."""
    return {str(place): dict(enumerate(of_row)) for place, of_row in enumerate(scores)}


def drawn(
    chance: np.random.Generator,
    means: list[float],
    seeds: int,
    error: float = 1.0,
    shared: float = 0.0,
) -> Rows:
    of_seeds = chance.normal(0.0, shared, seeds)
    errors = chance.normal(0.0, error, (len(means), seeds))
    return rows_of(np.asarray(means)[:, None] + of_seeds + errors)


def table(rows: Rows) -> np.ndarray:
    return np.asarray([list(row.values()) for row in rows.values()])


def all_p(scores: np.ndarray) -> np.ndarray:
    rows = rows_of(scores)
    tests = [difference(rows, *pair) for pair in combinations(rows, 2)]
    return np.array([test.p for test in tests if test])


def test_two_rows_alone_are_paired():
    rows = drawn(np.random.default_rng(0), [70.0, 71.0], 5, shared=3.0)
    tested = difference(rows, "0", "1")
    assert tested.p == pytest.approx(stats.ttest_rel(*table(rows)).pvalue)


def test_rows_that_differ_no_more_than_chance_has_it_are_pooled_with_all_degrees_of_freedom():
    square = np.array([[0.0, 1, 2], [0, 2, 1], [1, 0, 2.1], [2.1, 1, 0]])
    scores = np.array([[70.0], [71.0], [75.0], [72.0]]) + square
    rest = scores - scores.mean(1, keepdims=True) - scores.mean(0) + scores.mean()
    tested = difference(rows_of(scores), "0", "1")
    assert tested.freedom == 6
    assert tested.error == pytest.approx(np.sqrt((rest**2).sum() / 6 * 2 / 3))


def test_the_moderated_variance_is_smyths():
    """Written out once more: moments of log s² over all pairs, solved by bisection, and the mean of
    the two variances."""
    chance = np.random.default_rng(3)
    rows = drawn(chance, [70.0] * 9, 3) | {
        str(9 + place): dict(enumerate(chance.normal(0, 0.03, 3))) for place in range(3)
    }
    scores = table(rows)
    variances = np.array([np.var(a - b, ddof=1) / 2 for a, b in combinations(scores, 2)])
    assert variances.min() > 1e-5 * np.median(variances)
    logs = np.log(variances)
    half = brentq(lambda x: polygamma(1, x) - (logs.var(ddof=1) - polygamma(1, 1.0)), 1e-3, 1e6)
    prior = np.exp(logs.mean() - digamma(1.0) + digamma(half) - np.log(half))
    own = np.var(scores[0] - scores[1], ddof=1)
    tested = difference(rows, "0", "1")
    assert tested.freedom == pytest.approx(2 * half + 2, rel=1e-8)
    assert tested.error**2 == pytest.approx(
        (2 * half * 2 * prior + 2 * own) / (2 * half + 2) / 3, rel=1e-8
    )
    assert tested.alone.p == pytest.approx(stats.ttest_rel(scores[0], scores[1]).pvalue)


def test_a_row_that_is_constant_by_theorem_adds_nothing_to_an_error_and_stays_outside_the_pool():
    rows = drawn(np.random.default_rng(0), [1.5, 1.4, 1.3], 3, 0.05) | {
        "quiet": {0: 0.050, 1: 0.056, 2: 0.062}
    }
    with_none = rows | {"none": {0: 0.0, 1: 1e-9, 2: 0.0}}
    tested = difference(with_none, "quiet", "none")
    assert (tested.freedom, tested.error) == (2, pytest.approx(0.006 / 3**0.5, rel=1e-6))
    assert difference(with_none, "0", "1") == difference(rows, "0", "1")


def test_rows_of_one_pre_training_each_have_no_error():
    assert difference({"a": {0: 70.0}, "b": {0: 75.0}}, "a", "b") is None
    assert spread({"a": {0: 70.0}, "b": {0: 75.0}}, "a") is None


def test_a_row_of_one_pre_training_borrows_the_error_of_the_others():
    rows = drawn(np.random.default_rng(0), [70.0, 71.0], 5) | {"alone": {0: 60.0}}
    tested = difference(rows, "alone", "0")
    assert tested.freedom == 8  # its variance that of the rows, 2 × 4 degrees of freedom
    assert tested.high < 0


def test_rows_of_one_pre_training_and_one_seed_borrow_the_error_of_pairs():
    rows = drawn(np.random.default_rng(0), [70.0, 71.0], 5, shared=9.0) | {
        "a": {0: 60.0},
        "b": {0: 61.0},
    }
    tested, pair = difference(rows, "a", "b"), difference(rows, "0", "1")
    assert (tested.n, tested.freedom, tested.error) == (1, 4, pytest.approx(pair.error * 5**0.5))


def test_a_row_at_the_constant_answer_is_tested_by_itself():
    rows = drawn(np.random.default_rng(0), [70.0, 71.0, 72.0], 4) | {
        "constant": dict.fromkeys(range(4), 50.0)
    }
    tested = difference(rows, "0", "constant", ["constant"])
    assert tested.freedom == 3  # of its own four pairs
    others = difference(rows, "0", "1", ["constant"])
    assert others == difference(
        {row: units for row, units in rows.items() if row != "constant"}, "0", "1"
    )


def test_rows_of_different_seeds_are_not_paired():
    # their spreads are alike
    rows = {"a": {0: 70.0, 1: 71.0, 2: 73.0, 3: 72.0}, "b": {4: 69.1, 5: 70.0, 6: 72.2, 7: 71.0}}
    tested = difference(rows, "a", "b")
    assert tested.alone is None
    assert tested.p == pytest.approx(stats.ttest_ind(*table(rows)).pvalue)


def test_the_spread_between_pre_trainings_has_what_seeds_do_in_it():
    chance = np.random.default_rng(0)
    estimates = [
        spread(drawn(chance, [70.0] * 6, 4, error=1.0, shared=1.0), "0") for _ in range(TIMES)
    ]
    assert np.mean([estimate.variance for estimate in estimates if estimate]) == pytest.approx(
        2.0, rel=0.25
    )
    assert spread({"a": {0: 1.0, 1: 3.0, 2: 5.0}}, "a") == spread(
        {"a": {0: 1.0, 5: 3.0, 9: 5.0}}, "a"
    )


def test_the_test_of_equal_spreads_does_not_depend_on_the_order_of_rows_and_runs():
    chance = np.random.default_rng(0)
    rows = {
        str(place): dict(enumerate(chance.normal(0, 1 + place, 2 + place % 3)))
        for place in range(5)
    }
    turned = {row: dict(reversed(units.items())) for row, units in reversed(rows.items())}
    # Its null distribution is drawn: rows of other seeds got other draws.
    first, second = (contrast.equal_spreads(contrast._cells(table)) for table in (rows, turned))
    assert first == second


def test_equal_rows_seldom_differ_significantly():
    chance = np.random.default_rng(0)
    tests = [
        difference(drawn(chance, [70.0] * 8, 3, shared=2.0), "0", "1") for _ in range(2 * TIMES)
    ]
    assert np.mean([test is not None and test.p < 0.05 for test in tests]) <= 0.07


def test_effects_of_the_papers_size_are_found_with_three_seeds():
    """C01: three mechanisms above absolute positions, by 3.4, 3.6 and 4.1 GLUE, at a standard
    deviation of one point."""
    chance = np.random.default_rng(0)
    means = [
        71.1,
        74.5,
        74.7,
        75.2,
        68.4,
        73.5,
        71.9,
        73.4,
        72.0,
        74.5,
        73.9,
        74.0,
        74.5,
        70.3,
        74.0,
    ]
    pooled, alone = [], []
    for _ in range(TIMES):
        rows = drawn(chance, means, 3)
        pairs = [difference(rows, row, "0") for row in "123"]
        by_themselves = [
            difference({name: rows[name] for name in (row, "0")}, row, "0") for row in "123"
        ]
        for held, tests in ((pooled, pairs), (alone, by_themselves)):
            held.append(all(test is not None and test.low > 0 for test in tests))
    assert np.mean(pooled) >= 0.8
    assert np.mean(alone) < 0.6


SPREADS = np.array([21, 26, 43, 41, 27, 47, 16, 42, 30, 23, 16, 15, 56, 42, 12, 23]) / 1000
"""Standard deviations of the residuals of the rows of experiments/results/order_real, held-out loss
in nats."""
POOL = float(np.sqrt((SPREADS**2).mean()))


@SEEDS
def test_with_spreads_as_unequal_as_the_committed_tables_the_size_is_kept(seeds):
    chance = np.random.default_rng(0)
    effects = chance.normal(0, 0.05, (SEVERAL // 2, seeds))
    p = [
        all_p(effect + chance.normal(0, SPREADS[:, None], (len(SPREADS), seeds)))
        for effect in effects
    ]
    assert 0.03 <= np.mean(np.concatenate(p) < 0.05) <= 0.07


@pytest.mark.parametrize(
    "seeds", [2, *(pytest.param(seeds, marks=pytest.mark.full) for seeds in (3, 5))]
)
def test_with_rows_on_their_way_apart_an_interval_covers_in_each_kind_of_pair(seeds):
    """Eleven rows that know the order, and three that find it at chance times."""
    chance = np.random.default_rng(1)
    late = {"11": 0.28, "12": 0.1, "13": 0.05}
    kinds = {
        "knowing": [("0", "1"), ("2", "3"), ("4", "5"), ("6", "7")],
        "one on its way": [("8", "11"), ("9", "12")],
        "both": [("12", "13")],
    }
    covered: dict[str, list[bool]] = {kind: [] for kind in kinds}
    for _ in range(COVERAGE):
        spreads = [*(0.015 * np.exp(chance.normal(0, 0.4, 11))), *late.values()]
        scores = chance.normal(0, np.array(spreads)[:, None], (14, seeds))
        scores += chance.normal(0, 0.01, seeds)
        rows = rows_of(scores)
        for kind, pairs in kinds.items():
            for pair in pairs:
                tested = difference(rows, *pair, apart=list(late))
                assert tested is not None
                covered[kind].append(tested.low <= 0 <= tested.high)
    shares = {kind: float(np.mean(hits)) for kind, hits in covered.items()}
    assert all(0.93 <= share <= 0.97 for share in shares.values()), shares


def test_a_difference_of_two_quiet_rows_is_found_with_three_seeds():
    """0.05 nats between two rows whose spread is a tenth of the pool's."""
    chance = np.random.default_rng(0)
    hits = []
    for _ in range(SEVERAL):
        spreads = chance.permutation(SPREADS)
        spreads[:2] = POOL / 10
        scores = chance.normal(0, spreads[:, None], (len(spreads), 3)) + chance.normal(0, 0.05, 3)
        scores[0] += 0.05
        tested = difference(rows_of(scores), "0", "1")
        hits.append(tested is not None and tested.low > 0)
    assert np.mean(hits) >= 0.8


@SEEDS
def test_the_test_of_equal_spreads_has_its_size_and_power_at_few_seeds(seeds):
    chance = np.random.default_rng(seeds)

    def rejects(spreads: np.ndarray) -> float:
        tables = [
            chance.normal(0, spreads[:, None], (len(spreads), seeds)) + chance.normal(0, 1, seeds)
            for _ in range(SEVERAL)
        ]
        p = [contrast.equal_spreads(contrast._cells(rows_of(table))) for table in tables]
        return float(np.mean(np.less(p, 0.05)))

    assert 0.02 <= rejects(np.ones(16)) <= 0.08
    assert rejects(np.geomspace(0.1, 1.0, 16)) >= 0.8


@pytest.mark.parametrize("is_crossed", [True, False])
def test_the_fit_is_that_of_statsmodels(is_crossed):
    chance = np.random.default_rng(0)
    rows = {}
    for row in (0, 2, 1, 3):  # in the order of `_cells`
        rows[row] = {seed: float(chance.normal(row, 1 + row)) for seed in range(3 + row % 2)}
    cells = [(row, seed, score) for row in rows for seed, score in rows[row].items()]
    seeds = range(1, 4) if is_crossed else ()
    design = np.array(
        [[*(row == r for r in range(4)), *(seed == s for s in seeds)] for row, seed, _ in cells],
        dtype=float,
    )
    expected = OLS(np.array([score for *_, score in cells]), design).fit()
    assert contrast._fit(contrast._cells({str(r): rows[r] for r in rows}), is_crossed) == (
        pytest.approx(expected.ssr, rel=1e-12),
        expected.df_resid,
    )


def test_the_correction_for_many_tests_is_scipy_s():
    p_values = np.random.default_rng(0).random(40) ** 3
    assert benjamini_hochberg(list(p_values)) == pytest.approx(
        list(stats.false_discovery_control(p_values)), rel=1e-12
    )
