"""From tensors to numbers and figures."""

from relpos.analysis.kernels import draw_kernels, learned_kernels
from relpos.analysis.toeplitz import toeplitz_r2

__all__ = ["draw_kernels", "learned_kernels", "toeplitz_r2"]
