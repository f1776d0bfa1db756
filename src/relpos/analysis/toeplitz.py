"""How close a matrix is to depending on j − i alone (Wennberg & Henter 2021, Appendix B)."""

from __future__ import annotations

from typing import Any

import numpy as np

from relpos.errors import RelposError


def toeplitz_r2(matrix: Any) -> float:
    """R² = 1 − RSS/TSS of the best Toeplitz matrix, which holds the mean of each diagonal; every entry weighs the same.

    `matrix` (n, n): anything numpy or torch. 1 for a Toeplitz matrix, a constant one too. RelposError unless square and finite.
    """
    values = np.asarray(matrix.detach().cpu() if hasattr(matrix, "detach") else matrix, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
        raise RelposError(f"a Toeplitz fit needs a square matrix, not one of shape {values.shape}")
    if not np.isfinite(values).all():
        raise RelposError("a Toeplitz fit needs finite numbers")
    n = len(values)
    residual = sum(_spread(values.diagonal(offset)) for offset in range(1 - n, n))
    total = _spread(values)
    return 1.0 - residual / total if total > 0 else 1.0


def _spread(values: np.ndarray) -> float:
    """Sum of squares about the mean."""
    return float(((values - values.mean()) ** 2).sum())
