"""Reading and adding kernels along the diagonals of score matrices without a tensor of offsets."""

from __future__ import annotations

import torch
from torch import Tensor

# s (M, n, n), maybe transposed; kernel (M, n, 2k+1): the entry of row i for column j is kernel[:, i, j − i + k].


def _middle(s: Tensor, k: int) -> Tensor:
    """(M, n − 2k, 2k+1) view of the window of each row that lies wholly inside the matrix. Row i's window starts at column i − k."""
    _, n, _ = s.shape
    matrix, row, column = s.stride()
    return s.as_strided((len(s), n - 2 * k, 2 * k + 1), (matrix, row + column, column), s.storage_offset() + k * row)


def _corner(kernel: Tensor, first: int, k: int) -> Tensor:
    """(M, k, 2k) dense block of the k rows whose window starts at column `first` − k … of the block, cut off at its sides."""
    row = torch.arange(k, device=kernel.device)[:, None]
    column = torch.arange(2 * k, device=kernel.device)
    offset = column - row - first
    inside = (offset.abs() <= k).to(kernel.dtype)
    return kernel.gather(2, (offset.clamp(-k, k) + k).expand(len(kernel), -1, -1)).mul_(inside)


def _spread(block: Tensor, first: int, k: int) -> Tensor:
    """The adjoint of `_corner`: (M, k, 2k) → (M, k, 2k+1)."""
    row = torch.arange(k, device=block.device)[:, None]
    column = torch.arange(2 * k + 1, device=block.device) - k + row + first
    inside = ((column >= 0) & (column < 2 * k)).to(block.dtype)
    return block.gather(2, column.clamp(0, 2 * k - 1).expand(len(block), -1, -1)).mul_(inside)


def fits(n: int, width: int) -> bool:
    """Whether a window of this width can slide in a matrix of n columns."""
    return n >= width


def add_band_(s: Tensor, kernel: Tensor) -> None:
    """s[:, i, j] += kernel[:, i, j − i + k] for |j − i| ≤ k."""
    n, k = s.shape[1], kernel.shape[2] // 2
    kernel = kernel.to(s.dtype)
    _middle(s, k).add_(kernel[:, k : n - k])
    if k:
        s[:, :k, : 2 * k] += _corner(kernel[:, :k], 0, k)
        s[:, n - k :, n - 2 * k :] += _corner(kernel[:, n - k :], k, k)


def read_band(s: Tensor, k: int) -> Tensor:
    """(M, n, 2k+1): the adjoint of `add_band_`."""
    n = s.shape[1]
    if not k:
        return _middle(s, k).clone()
    ends = _spread(s[:, :k, : 2 * k], 0, k), _spread(s[:, n - k :, n - 2 * k :], k, k)
    return torch.cat((ends[0], _middle(s, k), ends[1]), 1)


def beyond(s: Tensor, k: int, left: bool = False) -> Tensor:
    """(n, n) with 1 where j > i + k, or j < i − k, laid out in memory as s is, so that the two run together in one sweep."""
    ones = torch.ones(s.shape[1:], dtype=s.dtype, device=s.device)
    if s.stride(2) == 1:
        return ones.tril_(-k - 1) if left else ones.triu_(k + 1)
    return (ones.triu_(k + 1) if left else ones.tril_(-k - 1)).t()


def toeplitz(offset: Tensor, n: int) -> Tensor:
    """(H, 2n−1) → (H, n, n) with [i, j] = offset[j − i + n − 1]."""
    return offset.unfold(-1, n, 1).flip(1)


def diagonal_sums(s: Tensor) -> Tensor:
    """(H, n, n) → (H, 2n−1), the adjoint of `toeplitz`: row i moves right by n − 1 − i, then the columns are summed."""
    heads, n, _ = s.shape
    skewed = s.new_zeros(heads, n, 2 * n)
    skewed[:, :, :n] = s.flip(1)
    return skewed.view(heads, -1)[:, : n * (2 * n - 1)].view(heads, n, 2 * n - 1).sum(1)
