"""What a convolution may do in a layer: make some of q, k, v, work instead of some heads or all,
add after the softmax, and change vectors at other places."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from relpos.errors import RelposError
from relpos.model.dropout import Draw
from relpos.model.position.base import Scheme
from relpos.model.shape import Heads, Hidden, Mask, Shape


class Conv(nn.Module):
    """No convolution. Subclasses override what they fill; shared layers share their convolution
    too.

    `places` says where `act` is called: at `input`, what the attention reads; at `q`, `k` and `v`,
    as projected, before position schemes see or turn them; at `ffn`, what the feed-forward network
    reads; at `inner`, its inner vectors before the activation. The residual stream keeps what stood
    at `input` and `ffn` before.

    `mask` is true at real tokens; None where all are real.
    """

    # which of q, k, v it makes; the attention then has no linear map for them
    projections: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()  # which others of them it needs, whatever makes them
    places: frozenset[str] = frozenset()
    # whether it reads tokens on the right of a token: causal attention refuses it
    reads_ahead: bool = True

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self).__name__

    @property
    def scored_heads(self) -> int:
        """How many heads, the first ones, have scores: where a position scheme acts. The rest come
        from `heads`."""
        return self.shape.heads

    @property
    def by_token(self) -> bool:
        """Whether it fills no hole, so that the layer does without the rows of the batch."""
        whole = not (self.projections or self.places) and self.scored_heads == self.shape.heads
        return whole and type(self).after is Conv.after

    def project(self, x: Hidden, mask: Mask | None) -> dict[str, Float[Tensor, "batch n _"]]:
        """From the layer's input, one tensor for each name in `projections`. The width of v is
        heads · head_dim, that of q and k scored_heads · head_dim."""
        return {}

    def heads(
        self,
        x: Hidden,
        q: Float[Tensor, "batch scored_heads n head_dim"] | None,
        v: Heads,
        mask: Mask | None,
        dropout: Draw | tuple[float, int],
    ) -> Heads:
        """The output of the heads without scores, heads − scored_heads of them, from their values
        v.

        x is the layer's input, q the queries of the heads with scores as projected, or None.
        """
        raise NotImplementedError

    def after(self, v: Hidden, mask: Mask | None) -> Hidden | None:
        """From the projected values of all heads, what is added to the attention's output before
        W_o."""
        return None

    def act(
        self,
        place: str,
        y: Float[Tensor, "batch n channels"],
        x: Hidden,
        mask: Mask | None,
    ) -> Float[Tensor, "batch n channels"]:
        """The vectors y at one of `places`, changed; x is what the attention, or the feed-forward
        network, reads. What both hold at padding may not reach other tokens."""
        raise NotImplementedError

    def count(self, shape: Shape) -> int:
        """Number of its own parameters in one layer, as a formula."""
        return 0

    def check_position(self, position: Scheme) -> None:
        """Raises RelposError where the scheme and this convolution mean nothing together."""
        own, other = self.name, type(position).__name__
        if not self.scored_heads and position.acts_on_scores:
            raise RelposError(f"conv {own} has no scores on which position {other} could act")
        missing = sorted(
            (self.projections | self.reads | self.places & {"q", "k", "v"}) - position.projections
        )
        if missing:
            raise RelposError(
                f"conv {own} works on {', '.join(missing)}, which position {other} does without"
            )
        replaced = sorted(self.projections & position.maps)
        if replaced:
            raise RelposError(
                f"conv {own} makes {', '.join(replaced)}, whose linear maps position {other} needs"
            )


class NoConv(Conv):
    """Plain attention.

    Parameters: 0

    Example:
        >>> none = NoConv(Shape.example())
        >>> none.scored_heads, sorted(none.projections)
        (2, [])
    """

    reads_ahead = False
