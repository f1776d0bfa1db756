"""Errors that are estimated from all rows of a scale, against formulas and simulations; covers pooled."""

import os

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS

from relpos.tables import pooled
from relpos.tables.pooled import difference, spread
from relpos.tables.statistics import benjamini_hochberg

TIMES = 2_000 if os.environ.get("RELPOS_FULL") else 60
Rows = dict[str, dict[int, float]]


def drawn(chance: np.random.Generator, means: list[float], seeds: int, error: float = 1.0, shared: float = 0.0) -> Rows:
    of_seeds = chance.normal(0.0, shared, seeds)
    scores = np.asarray(means)[:, None] + of_seeds + chance.normal(0.0, error, (len(means), seeds))
    return {str(place): dict(enumerate(of_row)) for place, of_row in enumerate(scores)}


def test_fifteen_rows_of_three_seeds_have_28_degrees_of_freedom() -> None:
    tested = difference(drawn(np.random.default_rng(0), [70.0] * 15, 3), "0", "1")
    assert tested is not None
    assert tested.freedom == 28
    assert (tested.high - tested.value) / tested.error == pytest.approx(2.05, abs=0.005)


def test_two_rows_alone_are_paired() -> None:
    rows = drawn(np.random.default_rng(0), [70.0, 71.0], 5, shared=3.0)
    tested = difference(rows, "0", "1")
    assert tested is not None
    assert tested.p == pytest.approx(stats.ttest_rel(list(rows["0"].values()), list(rows["1"].values())).pvalue)


def test_the_error_is_that_of_all_rows() -> None:
    rows = drawn(np.random.default_rng(0), [70.0, 71.0, 72.0], 4)
    table = np.asarray([list(row.values()) for row in rows.values()])
    rest = table - table.mean(1, keepdims=True) - table.mean(0) + table.mean()
    tested = difference(rows, "0", "1")
    assert tested is not None
    assert tested.freedom == 6
    assert tested.error == pytest.approx(np.sqrt((rest**2).sum() / 6 * 2 / 4))


def test_without_several_pre_trainings_nothing_is_known() -> None:
    assert difference({"a": {0: 70.0}, "b": {0: 75.0}}, "a", "b") is None
    assert spread({"a": {0: 70.0}, "b": {0: 75.0}}, "a") is None


def test_a_row_of_one_pre_training_borrows_the_error_of_the_others() -> None:
    rows = drawn(np.random.default_rng(0), [70.0, 71.0], 5) | {"alone": {0: 60.0}}
    tested = difference(rows, "alone", "0")
    assert tested is not None
    assert tested.freedom == 8
    assert tested.high < 0


def test_a_row_at_the_constant_answer_is_tested_by_itself() -> None:
    rows = drawn(np.random.default_rng(0), [70.0, 71.0, 72.0], 4) | {"constant": dict.fromkeys(range(4), 50.0)}
    tested = difference(rows, "0", "constant", ["constant"])
    assert tested is not None
    assert tested.freedom == 3  # Welch's, of the row that has a spread
    others = difference(rows, "0", "1", ["constant"])
    assert others == difference({row: units for row, units in rows.items() if row != "constant"}, "0", "1")


def test_rows_of_unequal_spread_are_tested_by_welch() -> None:
    chance = np.random.default_rng(0)
    rows = drawn(chance, [70.0] * 6, 10) | {"wide": dict(enumerate(chance.normal(70.0, 20.0, 10)))}
    tested = difference(rows, "0", "wide")
    assert tested is not None
    assert tested.p == pytest.approx(stats.ttest_ind(list(rows["0"].values()), list(rows["wide"].values()), equal_var=False).pvalue)


def test_the_spread_between_pre_trainings_has_what_seeds_do_in_it() -> None:
    chance = np.random.default_rng(0)
    found = [spread(drawn(chance, [70.0] * 6, 4, error=1.0, shared=1.0), "0") for _ in range(TIMES)]
    assert np.mean([each.variance for each in found if each]) == pytest.approx(2.0, rel=0.25)
    assert spread({"a": {0: 1.0, 1: 3.0, 2: 5.0}}, "a") == spread({"a": {0: 1.0, 5: 3.0, 9: 5.0}}, "a")


def test_without_a_difference_one_is_seldom_found() -> None:
    chance = np.random.default_rng(0)
    tested = [difference(drawn(chance, [70.0] * 8, 3, shared=2.0), "0", "1") for _ in range(2 * TIMES)]
    assert np.mean([each is not None and each.p < 0.05 for each in tested]) <= 0.07


def test_effects_of_the_papers_size_are_found_with_three_seeds() -> None:
    """C01: three mechanisms above absolute positions, by 3.4, 3.6 and 4.1 GLUE, at a standard deviation of one point."""
    chance = np.random.default_rng(0)
    means = [71.1, 74.5, 74.7, 75.2, 68.4, 73.5, 71.9, 73.4, 72.0, 74.5, 73.9, 74.0, 74.5, 70.3, 74.0]
    pooled, alone = [], []
    for _ in range(TIMES):
        rows = drawn(chance, means, 3)
        pairs = [difference(rows, row, "0") for row in "123"]
        by_themselves = [difference({name: rows[name] for name in (row, "0")}, row, "0") for row in "123"]
        for held, tests in ((pooled, pairs), (alone, by_themselves)):
            held.append(all(each is not None and each.low > 0 for each in tests))
    assert np.mean(pooled) >= 0.8
    assert np.mean(alone) < 0.6


@pytest.mark.parametrize("is_crossed", [True, False])
def test_the_fit_and_the_test_of_equal_spreads_are_those_of_statsmodels_and_scipy(is_crossed: bool) -> None:
    chance = np.random.default_rng(0)
    cells = tuple((row, seed, float(chance.normal(row, 1 + row))) for row in range(4) for seed in range(3 + row % 2))
    fit = pooled._fit(cells, is_crossed)
    seeds = range(1, 4) if is_crossed else ()
    design = np.array([[*(row == r for r in range(4)), *(seed == s for s in seeds)] for row, seed, _ in cells], dtype=float)
    expected = OLS(np.array([score for *_, score in cells]), design).fit()
    vector = np.eye(design.shape[1])[0] - np.eye(design.shape[1])[2]
    assert fit.params == pytest.approx(expected.params, rel=1e-12)
    assert (fit.df_resid, fit.ssr) == (expected.df_resid, pytest.approx(expected.ssr, rel=1e-12))
    assert fit.error(vector) == pytest.approx(np.squeeze(expected.t_test(vector).sd), rel=1e-12)
    groups = [chance.normal(0, 1 + row, 5) for row in range(3)]
    assert pooled._brown_forsythe(groups) == pytest.approx(stats.levene(*groups, center="median").pvalue, rel=1e-12)


def test_the_correction_for_many_tests_is_scipy_s() -> None:
    p_values = np.random.default_rng(0).random(40) ** 3
    assert benjamini_hochberg(list(p_values)) == pytest.approx(list(stats.false_discovery_control(p_values)), rel=1e-12)
