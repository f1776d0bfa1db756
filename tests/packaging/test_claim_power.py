"""Rules find what the papers print where it is true, and little where rows are alike; covers benchmarks/_claim_simulation.py."""

import _claim_simulation as simulation
import numpy as np
import pytest
from _claim_simulation import power, worlds

from relpos.claims.claim import load

DRAWS = 12
CLAIMS = {paper: load(paper) for paper in ("chang2021", "wennberg2021")}


def some(paper: str, *ids: str) -> list:  # type: ignore[type-arg]
    return [claim for claim in CLAIMS[paper] if claim.id in ids]


@pytest.mark.full
def test_rows_are_drawn_around_the_printed_means_with_the_printed_errors() -> None:
    small, base = simulation.drawn(worlds("chang2021")[0], 2_000, np.random.default_rng(0))
    values = [each.value for each in small.values["composite"]["cola"]]
    assert np.mean(values) == pytest.approx(40.9, abs=0.2)
    assert np.std(values) == pytest.approx(simulation.pretraining(0.7 * 10**0.5), rel=0.05)
    assert list(base.values) == ["absolute", "fixed", "dynamic", "composite"]


def test_test_figures_take_the_place_of_those_on_dev() -> None:
    _, of_test, alike = worlds("chang2021")
    assert of_test.means["small"]["fixed"]["cola"] == 42.1
    assert np.mean(list(of_test.means["small"]["qkv"].values())) == pytest.approx(72.0)  # printed for GLUE alone
    assert alike.means["small"]["none"] == alike.means["small"]["composite"]


@pytest.mark.parametrize(
    ("paper", "ids"), [("chang2021", ("C01", "C02", "C06", "C13", "C15", "C19")), ("wennberg2021", ("W13", "W16"))]
)
def test_claims_of_large_effect_are_found_with_ten_seeds_and_never_called_false(paper: str, ids: tuple[str, ...]) -> None:
    found = power(some(paper, *ids), worlds(paper)[0], 10, DRAWS)
    assert set(found) == set(ids)
    assert {name for name, of_claim in found.items() if of_claim.holds < 0.8 or of_claim.fails > 0.07} == set()


def test_three_seeds_of_fifteen_rows_find_the_first_claim() -> None:
    assert power(some("chang2021", "C01"), worlds("chang2021")[0], 3, 2 * DRAWS)["C01"].holds >= 0.8


def test_rows_that_are_alike_are_seldom_told_apart() -> None:
    found = power(some("chang2021", "C01", "C13", "C19"), worlds("chang2021")[-1], 5, DRAWS)
    assert max(of_claim.holds for of_claim in found.values()) <= 2 / DRAWS


def test_what_is_not_about_printed_scores_is_left_out() -> None:
    assert power(some("chang2021", "C10", "C12", "C20", "C22", "C01/loss"), worlds("chang2021")[0], 3, 1) == {}
