"""What a convolution may do in the attention: make some of q, k, v, work instead of some heads or all, add after the softmax."""

from __future__ import annotations

from torch import Tensor, nn

from relpos.errors import RelposError
from relpos.model.position.base import Scheme
from relpos.model.shape import Shape


class Conv(nn.Module):
    """No convolution. Subclasses override what they fill; shared layers share their convolution too.

    `mask` (B, n) is true at real tokens; None where all are real.
    """

    projections: frozenset[str] = frozenset()  # which of q, k, v it makes; the attention then has no linear map for them
    reads: frozenset[str] = frozenset()  # which of them it needs besides, whoever makes them

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self).__name__

    @property
    def scored_heads(self) -> int:
        """How many heads, the first ones, have scores: where a position scheme acts. The rest come from `heads`."""
        return self.shape.heads

    def project(self, x: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
        """x (B, n, hidden) → (B, n, width) for each name in `projections`. The width of v is heads · head_dim, that of q and k
        scored_heads · head_dim."""
        return {}

    def heads(self, x: Tensor, q: Tensor | None, v: Tensor, mask: Tensor | None, dropout: tuple[float, int]) -> Tensor:
        """What the heads without scores give: their values v (B, heads − scored_heads, n, head_dim) → the same shape.

        x (B, n, hidden) is the layer's input, q (B, scored_heads, n, head_dim) as projected, or None; dropout = (rate, key).
        """
        raise NotImplementedError

    def after(self, v: Tensor, mask: Tensor | None) -> Tensor | None:
        """Projected values v (B, n, heads · head_dim) → what is added to the attention's output before W_o, same shape."""
        return None

    def count(self, shape: Shape) -> int:
        """Number of its own parameters in one layer, as a formula."""
        return 0

    def check_position(self, position: Scheme) -> None:
        """Raises RelposError where the scheme and this convolution mean nothing together."""
        own, other = self.name, type(position).__name__
        if not self.scored_heads and position.acts_on_scores:
            raise RelposError(f"conv {own} has no scores on which position {other} could act")
        missing = sorted((self.projections | self.reads) - position.projections)
        if missing:
            raise RelposError(f"conv {own} works on {', '.join(missing)}, which position {other} does without")


class NoConv(Conv):
    """Plain attention.

    Parameters: 0
    """
