"""Reading and adding convolution kernels along the diagonals of score matrices without a tensor of
offsets."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

Matrices = Float[Tensor, "matrices n n"]  # maybe transposed
# width 2k+1: the entry of row i for column j is kernel[:, i, j − i + k]
Kernels = Float[Tensor, "matrices n width"]
Block = Float[Tensor, "matrices rows columns"]  # some rows and columns of a matrix


def _middle(s: Matrices, k: int) -> Float[Tensor, "matrices n-2*{k} 2*{k}+1"]:
    """A view of the windows that lie wholly inside the matrix; row i's starts at column i − k."""
    _, n, _ = s.shape
    matrix, row, column = s.stride()
    return s.as_strided(
        (len(s), n - 2 * k, 2 * k + 1),
        (matrix, row + column, column),
        s.storage_offset() + k * row,
    )


def _block(kernel: Float[Tensor, "matrices rows width"], first: int, columns: int) -> Block:
    """The window of row i centred on column `first` + i, cut off at both sides."""
    k = kernel.shape[2] // 2
    row = torch.arange(kernel.shape[1], device=kernel.device)[:, None]
    offset = torch.arange(columns, device=kernel.device) - row - first
    inside = (offset.abs() <= k).to(kernel.dtype)
    return kernel.gather(2, (offset.clamp(-k, k) + k).expand(len(kernel), -1, -1)).mul_(inside)


def _windows(block: Block, first: int, k: int) -> Float[Tensor, "matrices rows 2*{k}+1"]:
    """The adjoint of `_block`."""
    _, rows, columns = block.shape
    row = torch.arange(rows, device=block.device)[:, None]
    column = torch.arange(-k, k + 1, device=block.device) + row + first
    inside = ((column >= 0) & (column < columns)).to(block.dtype)
    return block.gather(2, column.clamp(0, columns - 1).expand(len(block), -1, -1)).mul_(inside)


def add_band_(s: Matrices, kernel: Kernels) -> None:
    """s[:, i, j] += kernel[:, i, j − i + k] for |j − i| ≤ k."""
    n, k = s.shape[1], kernel.shape[2] // 2
    kernel = kernel.to(s.dtype)
    # Rows whose whole window lies in the sentence are one strided view; only the k rows at each end
    # need a block of their own.
    if n <= 2 * k:
        s += _block(kernel, 0, n)
        return
    _middle(s, k).add_(kernel[:, k : n - k])
    if k:
        s[:, :k, : 2 * k] += _block(kernel[:, :k], 0, 2 * k)
        s[:, n - k :, n - 2 * k :] += _block(kernel[:, n - k :], k, 2 * k)


def read_band(s: Matrices, k: int) -> Float[Tensor, "matrices n 2*{k}+1"]:
    """The adjoint of `add_band_`."""
    n = s.shape[1]
    if n <= 2 * k:
        return _windows(s, 0, k)
    if not k:
        return _middle(s, k).clone()
    ends = _windows(s[:, :k, : 2 * k], 0, k), _windows(s[:, n - k :, n - 2 * k :], k, k)
    return torch.cat((ends[0], _middle(s, k), ends[1]), 1)


def beyond(s: Matrices, k: int, left: bool = False) -> Float[Tensor, "n n"]:
    """A matrix with 1 where j > i + k, or j < i − k, laid out in memory as s is, so that the two
    run together in one sweep."""
    ones = torch.ones(s.shape[1:], dtype=s.dtype, device=s.device)
    if s.stride(2) == 1:
        return ones.tril_(-k - 1) if left else ones.triu_(k + 1)
    return (ones.triu_(k + 1) if left else ones.tril_(-k - 1)).t()


def toeplitz(offset: Float[Tensor, "heads 2*{n}-1"], n: int) -> Float[Tensor, "heads {n} {n}"]:
    """Entry [i, j] is offset[j − i + n − 1]."""
    return offset.unfold(-1, n, 1).flip(1)


def diagonal_sums(s: Float[Tensor, "heads n n"]) -> Float[Tensor, "heads 2*n-1"]:
    """The adjoint of `toeplitz`: row i moves right by n − 1 − i, then the columns are summed."""
    heads, n, _ = s.shape
    skewed = s.new_zeros(heads, n, 2 * n)
    skewed[:, :, :n] = s.flip(1)
    return skewed.view(heads, -1)[:, : n * (2 * n - 1)].view(heads, n, 2 * n - 1).sum(1)
