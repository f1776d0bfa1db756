"""A curve made of TISA's basis functions is met; what is no such curve is not."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from relpos.analysis.fit import Fit, fit_heads
from relpos.errors import RelposError

OFFSETS = np.arange(-31, 32)


def fit_tisa(curve: ArrayLike, functions: int = 5) -> Fit:
    """`fit_heads` of one curve."""
    return fit_heads(np.asarray(curve, np.float64)[None], functions)[0]


def test_one_basis_function_is_found():
    fit = fit_tisa(0.5 - 2.0 * np.exp(-0.4 * (OFFSETS - 3.0) ** 2), functions=1)
    assert fit.amplitude == pytest.approx([-2.0])
    assert fit.sharpness == pytest.approx([0.4])
    assert fit.centre == pytest.approx([3.0])
    assert fit.constant == pytest.approx(0.5)
    assert fit.r2 == pytest.approx(1.0)


def test_noise_is_not_met_and_a_constant_is():
    assert fit_tisa(np.random.default_rng(0).standard_normal(63)).r2 < 0.8
    assert fit_tisa(np.full(63, 2.0)).r2 == pytest.approx(1.0)


def test_too_few_offsets_are_refused():
    with pytest.raises(RelposError, match="7 offsets are too few for the 16 parameters"):
        fit_tisa(np.arange(7.0), functions=5)


def test_profiles_made_from_known_basis_functions_are_met_to_one_part_in_ten_thousand():
    draw = np.random.default_rng(1)
    offsets = np.arange(-63.0, 64.0)
    curves = []
    for _ in range(6):
        a, b, c = (
            draw.normal(size=5),
            10 ** draw.uniform(-2, 0, 5),
            draw.choice(np.arange(-24, 25, 8), 5, replace=False),
        )
        curves.append(1.0 + (a * np.exp(-b * (offsets[:, None] - c) ** 2)).sum(1))
    assert min(fit.r2 for fit in fit_heads(curves, functions=5)) >= 0.9999


def test_weights_say_which_offsets_must_be_met():
    curve = np.where(
        OFFSETS < 0, np.exp(-0.1 * (OFFSETS + 10.0) ** 2), 3 * np.exp(-0.1 * (OFFSETS - 10.0) ** 2)
    )
    right = fit_heads([curve], 1, weights=np.where(OFFSETS < 0, 1e-6, 1.0))[0]
    left = fit_heads([curve], 1, weights=np.where(OFFSETS < 0, 1.0, 1e-6))[0]
    assert right.centre == pytest.approx([10.0], abs=0.1)
    assert left.centre == pytest.approx([-10.0], abs=0.1)


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(RelposError, match="finite"):
        fit_tisa(np.full(63, np.nan))
