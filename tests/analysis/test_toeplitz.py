"""The share of a matrix that depends on the offset alone."""

import numpy as np
import pytest

from relpos.analysis import toeplitz_r2
from relpos.analysis.toeplitz import diagonal_means
from relpos.errors import RelposError


@pytest.mark.parametrize("matrix", [[[1, 2, 3], [0, 1, 2], [5, 0, 1]], np.ones((4, 4))])
def test_r2_of_toeplitz_and_constant_matrices_is_one(matrix):
    assert toeplitz_r2(matrix) == 1.0


@pytest.mark.parametrize("matrix", [[[1.0, 2.0]], [1.0], [[float("nan")]], np.zeros((0, 0))])
def test_matrices_that_are_not_square_or_finite_are_refused(matrix):
    with pytest.raises(RelposError):
        toeplitz_r2(matrix)


def test_r2_equals_a_double_loop():
    matrix = np.random.default_rng(0).standard_normal((9, 9)).cumsum(1)
    residual = 0.0
    for i in range(9):
        for j in range(9):
            same = [matrix[a, a + j - i] for a in range(9) if 0 <= a + j - i < 9]
            residual += (matrix[i, j] - sum(same) / len(same)) ** 2
    mean = sum(matrix[i, j] for i in range(9) for j in range(9)) / 81
    total = sum((matrix[i, j] - mean) ** 2 for i in range(9) for j in range(9))
    assert toeplitz_r2(matrix) == pytest.approx(1 - residual / total, abs=1e-12)


def test_the_mean_of_a_diagonal_stands_at_its_offset():
    means = diagonal_means([[1.0, 2.0], [4.0, 3.0]])
    assert means.tolist() == [4.0, 2.0, 2.0]


def test_the_main_diagonal_can_be_left_out():
    chance = np.random.default_rng(0)
    matrix = chance.normal(size=(6, 6))
    cells = [(i, j) for i in range(6) for j in range(6) if i != j]
    mean = {o: np.mean([matrix[i, j] for i, j in cells if j - i == o]) for o in range(-5, 6) if o}
    total = sum((matrix[i, j] - np.mean([matrix[cell] for cell in cells])) ** 2 for i, j in cells)
    residual = sum((matrix[i, j] - mean[j - i]) ** 2 for i, j in cells)
    assert toeplitz_r2(matrix, main=False) == pytest.approx(1 - residual / total, abs=1e-12)
    assert toeplitz_r2(matrix + 9 * np.eye(6), main=False) == pytest.approx(
        toeplitz_r2(matrix, main=False), abs=1e-12
    )
    assert toeplitz_r2([[3.0]], main=False) == 1.0
