"""How close a matrix is to depending on j − i alone (Wennberg & Henter 2021, Appendix B)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from relpos.errors import RelposError

Matrix = Float[np.ndarray, "n n"]


def products(table: object) -> tuple[Matrix, Matrix]:
    """P = E·E^T (n, n) and the cosines (n, n) of a position table (n, embedding)."""
    rows = _numbers(table)
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    # A row of zeros has no direction; its cosines are then 0.
    unit = rows / np.where(sizes > 0, sizes, 1.0)
    return rows @ rows.T, unit @ unit.T


def toeplitz_r2(matrix: object, main: bool = True) -> float:
    """R² = 1 − RSS/TSS of the best Toeplitz matrix, which holds the mean of each diagonal; every
    entry weighs the same.

    It is 1 for a Toeplitz matrix, a constant one too. The main diagonal of P = E·E^T has the
    squared lengths of the rows of E, which set it apart from the others in a random table, too;
    without it R² tells what the others have in common.

    Args:
        matrix: (n, n), of numpy or torch.
        main: whether the entries of the main diagonal count.

    Raises:
        RelposError: it is not square, or not finite.
    """
    values = _square(matrix)
    n = len(values)
    residual = sum(_spread(values.diagonal(offset)) for offset in range(1 - n, n) if main or offset)
    total = _spread(values if main else values[~np.eye(n, dtype=bool)])
    if not total > 0:  # a constant matrix has nothing to explain, and is Toeplitz
        return 1.0
    return 1.0 - residual / total


def diagonal_means(matrix: object) -> Float[np.ndarray, "offsets"]:
    """The best Toeplitz matrix of an (n, n) one as a curve: the mean of each diagonal, at offsets
    1−n … n−1."""
    values = _square(matrix)
    n = len(values)
    return np.array([values.diagonal(offset).mean() for offset in range(1 - n, n)])


def _numbers(table: object) -> Float[np.ndarray, "..."]:
    """An array or a tensor as an array of float64."""
    if hasattr(table, "detach"):
        table = table.detach().double().cpu()
    return np.asarray(table, np.float64)


def _square(matrix: object) -> Matrix:
    values = _numbers(matrix)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
        raise RelposError(f"a Toeplitz fit needs a square matrix, not one of shape {values.shape}")
    if not np.isfinite(values).all():
        raise RelposError("a Toeplitz fit needs finite numbers")
    return values


def _spread(values: np.ndarray) -> float:
    """Sum of squares about the mean."""
    return float(((values - values.mean()) ** 2).sum()) if values.size else 0.0
