"""The share of a matrix that depends on the offset alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from relpos.analysis import toeplitz_r2
from relpos.errors import RelposError


def test_a_toeplitz_matrix_has_one() -> None:
    assert toeplitz_r2([[1, 2, 3], [0, 1, 2], [5, 0, 1]]) == 1.0


def test_a_constant_matrix_counts_as_toeplitz() -> None:
    assert toeplitz_r2(np.ones((4, 4))) == 1.0


def test_equals_least_squares_on_diagonal_indicators() -> None:
    matrix = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    indicator = np.zeros((36, 11))
    for i in range(6):
        for j in range(6):
            indicator[6 * i + j, j - i + 5] = 1
    flat = matrix.double().numpy().ravel()
    fit, *_ = np.linalg.lstsq(indicator, flat, rcond=None)
    expected = 1 - ((flat - indicator @ fit) ** 2).sum() / ((flat - flat.mean()) ** 2).sum()
    assert toeplitz_r2(matrix) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("matrix", [[[1.0, 2.0]], [1.0], [[float("nan")]], np.zeros((0, 0))])
def test_what_is_no_square_of_numbers_is_refused(matrix: object) -> None:
    with pytest.raises(RelposError):
        toeplitz_r2(matrix)
