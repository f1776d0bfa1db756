"""The rules over columns hold in most faithful reproductions with ten seeds, at the papers' own differences; covers signs."""

from __future__ import annotations

import numpy as np
import pytest

from relpos.claims.signs import GainWithoutLoss, OverColumns, Signs
from relpos.tables.statistics import Difference

TABLE_6 = ([0.3, 0.3, 0.4, 1.2, 0.2, 0.1, 0.5, -0.3, 0.8], [2.2, 0.2, 0.3, 1.6, 0.3, 0.2, 2.5, 0.6, 0.3])
"""Fixed lightweight − fixed depthwise on the dev sets, and the standard deviation of a run from the printed errors."""
TABLE_3A = ([0.2, 1.0, 0.1, 0.1, 1.3, 0.5, 0.0, 0.7], [0.4, 0.4, 0.4, 0.4, 1.5, 1.0, 0.4, 2.0])
TABLE_3B = ([0.9, 2.8, 0.5, 0.1, 0.3, 1.1, 0.7], [0.4, 0.4, 0.4, 0.4, 1.0, 0.4, 2.0])
"""S = 5 − baseline. Nothing is printed of their spread: larger for the smaller dev sets."""
PAIR = ("new", "old")


def share_holding(rule: OverColumns, differences: list[float], deviations: list[float], times: int = 40) -> float:
    chance = np.random.default_rng(0)
    errors = [deviation * (2 / 10) ** 0.5 for deviation in deviations]
    verdicts = []
    for _ in range(times):
        columns = [
            Difference(value + chance.normal(0, error), error, 100.0, 10) for value, error in zip(differences, errors, strict=True)
        ]
        value = float(np.mean([column.value for column in columns]))
        mean = Difference(value, sum(error**2 for error in errors) ** 0.5 / len(errors), 100.0, 10)
        verdicts.append(rule.judge(columns, mean)[0].verdict)
    return verdicts.count("holds") / times


@pytest.mark.parametrize(
    ("rule", "numbers"),
    [
        (Signs(PAIR, at_least=5, of=9), TABLE_6),
        (GainWithoutLoss(PAIR), TABLE_3A),
        (GainWithoutLoss(PAIR), TABLE_3B),
    ],
)
def test_the_rules_in_use_find_what_the_papers_print(rule: OverColumns, numbers: tuple[list[float], list[float]]) -> None:
    assert share_holding(rule, *numbers) >= 0.8


@pytest.mark.parametrize(("at_least", "of", "numbers"), [(7, 8, TABLE_3A), (7, 7, TABLE_3B)])
def test_the_counts_that_were_restated_would_seldom_be_found(
    at_least: int, of: int, numbers: tuple[list[float], list[float]]
) -> None:
    assert share_holding(Signs(PAIR, at_least=at_least, of=of), *numbers, times=20) < 0.5
