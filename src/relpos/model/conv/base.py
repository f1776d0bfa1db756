"""What a convolution beside the attention may do: make some of q, k, v, and add something after the softmax."""

from __future__ import annotations

from torch import Tensor, nn

from relpos.model.shape import Shape


class Conv(nn.Module):
    """No convolution. Subclasses override what they fill; shared layers share their convolution too.

    `mask` (B, n) is true at real tokens; None where all are real.
    """

    projections: frozenset[str] = frozenset()  # which of q, k, v it makes; the attention then has no linear map for them

    def __init__(self, shape: Shape) -> None:
        super().__init__()

    def project(self, x: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
        """x (B, n, hidden) → (B, n, heads · head_dim) for each name in `projections`."""
        return {}

    def after(self, v: Tensor, mask: Tensor | None) -> Tensor | None:
        """Projected values v (B, n, heads · head_dim) → what is added to the attention's output before W_o, same shape."""
        return None


class NoConv(Conv):
    """Plain attention."""
