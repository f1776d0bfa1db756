"""The rules over columns hold in most faithful reproductions with ten seeds, at the papers' own differences; part of columns."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from relpos.claims.columns import signs_above
from relpos.claims.comparisons import mean_without_loss
from relpos.claims.verdict import Evidence
from relpos.results.statistics import Difference

TABLE_6 = ([0.3, 0.3, 0.4, 1.2, 0.2, 0.1, 0.5, -0.3, 0.8], [2.2, 0.2, 0.3, 1.6, 0.3, 0.2, 2.5, 0.6, 0.3])
"""Fixed lightweight − fixed depthwise on the dev sets, and the standard deviation of a run from the printed errors."""
TABLE_3A = ([0.2, 1.0, 0.1, 0.1, 1.3, 0.5, 0.0, 0.7], [0.4, 0.4, 0.4, 0.4, 1.5, 1.0, 0.4, 2.0])
TABLE_3B = ([0.9, 2.8, 0.5, 0.1, 0.3, 1.1, 0.7], [0.4, 0.4, 0.4, 0.4, 1.0, 0.4, 2.0])
"""S = 5 − baseline. Nothing is printed of their spread: larger for the smaller dev sets."""
Rule = Callable[[Difference, Sequence[Difference]], Evidence]


def signs(needed: int) -> Rule:
    return lambda mean, columns: signs_above(columns, needed)


def share_holding(rule: Rule, differences: list[float], deviations: list[float], times: int = 40) -> float:
    chance = np.random.default_rng(0)
    errors = [deviation * (2 / 10) ** 0.5 for deviation in deviations]
    verdicts = []
    for _ in range(times):
        columns = [
            Difference(value + chance.normal(0, error), error, 100.0, 10) for value, error in zip(differences, errors, strict=True)
        ]
        value = float(np.mean([column.value for column in columns]))
        mean = Difference(value, sum(error**2 for error in errors) ** 0.5 / len(errors), 100.0, 10)
        verdicts.append(rule(mean, columns).verdict)
    return verdicts.count("holds") / times


@pytest.mark.parametrize(("rule", "numbers"), [(signs(5), TABLE_6), (mean_without_loss, TABLE_3A), (mean_without_loss, TABLE_3B)])
def test_the_rules_in_use_find_what_the_papers_print(rule: Rule, numbers: tuple[list[float], list[float]]) -> None:
    assert share_holding(rule, *numbers) >= 0.8


@pytest.mark.parametrize("numbers", [TABLE_3A, TABLE_3B])
def test_the_counts_of_seven_that_were_restated_would_seldom_be_found(numbers: tuple[list[float], list[float]]) -> None:
    assert share_holding(signs(7), *numbers, times=20) < 0.5
