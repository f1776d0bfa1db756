"""From tensors to numbers and figures."""

from relpos.analysis.toeplitz import toeplitz_r2

__all__ = ["toeplitz_r2"]
