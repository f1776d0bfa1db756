"""Queries, keys or values made by convolution."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor, cat, nn

from relpos.errors import RelposError
from relpos.model.conv.base import Conv
from relpos.model.conv.separable import SeparableConv
from relpos.model.conv.window import hide
from relpos.model.shape import Hidden, Mask, Shape
from relpos.ranges import Fraction, Natural, checked

ACTIVATIONS = {"none": nn.Identity, "gelu": nn.GELU}
Activation = Literal["none", "gelu"]


class ConvProjections(Conv):
    """Some of q, k, v in the first `fraction` of the heads by a depthwise-separable convolution of
    the layer's input, in the others by a linear map (Chang et al. 2021, Section 4.3 and Table 3):

        q_i = W_p act(Σ_r w_r ⊙ x_{i+r} + w) + b_p, r = −k..k         inputs of padding set to 0; all hidden channels are convolved

    Each of q, k, v has a convolution of its own. The paper does not say whether there is an
    activation; its authors' code takes either, the counts fit both, and `none` is the setting of
    the printed rows.
    """

    @checked
    def __init__(
        self,
        shape: Shape,
        k: Natural,
        fraction: Fraction = 0.5,
        activation: Activation = "none",
    ) -> None:
        super().__init__(shape)
        self.width, self.reads_ahead = 2 * k + 1, k > 0
        self.convolved = convolved_heads(shape, fraction) * shape.head_dim
        rest = shape.heads * shape.head_dim - self.convolved
        self.convolutions = nn.ModuleDict(
            {
                name: SeparableConv(
                    shape.hidden,
                    self.convolved,
                    self.width,
                    ACTIVATIONS[activation](),
                )
                for name in self.names
            }
        )
        self.linear = nn.Linear(shape.hidden, len(self.names) * rest) if rest else None

    @property
    def names(self) -> list[str]:
        """In the order in which `linear` holds them."""
        return [name for name in "qkv" if name in self.projections]

    def project(self, x: Hidden, mask: Mask | None) -> dict[str, Float[Tensor, "batch n _"]]:
        convolutions = [
            part for part in self.convolutions.values() if isinstance(part, SeparableConv)
        ]
        projected = dict(
            zip(self.names, SeparableConv.each(convolutions, hide(x, mask)), strict=True)
        )
        if self.linear is not None:
            # One matrix product for all names; what it makes of padding no token sees.
            rest = self.linear(x).chunk(len(projected), -1)
            projected = {
                name: cat((projected[name], part), -1)
                for name, part in zip(self.names, rest, strict=True)
            }
        return projected

    def count(self, shape: Shape) -> int:
        rest = shape.heads * shape.head_dim - self.convolved
        return len(self.names) * (
            SeparableConv.count(shape.hidden, self.convolved, self.width)
            + rest * (shape.hidden + 1)
        )


class ConvQK(ConvProjections):
    """Queries and keys.

    Parameters: 2·L·(d·(2k+2) + d·(d+1))

    Example:
        >>> made = ConvQK(Shape.example(), k=1).project(torch.ones(1, 5, 8), None)
        >>> {name: tuple(x.shape) for name, x in made.items()}
        {'q': (1, 5, 8), 'k': (1, 5, 8)}
    """

    projections = frozenset("qk")


class ConvValue(ConvProjections):
    """Values.

    Parameters: L·(d·(2k+2) + d·(d+1))

    Example:
        >>> made = ConvValue(Shape.example(), k=1).project(torch.ones(1, 5, 8), None)
        >>> {name: tuple(x.shape) for name, x in made.items()}
        {'v': (1, 5, 8)}
    """

    projections = frozenset("v")


class ConvQKV(ConvProjections):
    """Queries, keys and values.

    Parameters: 3·L·(d·(2k+2) + d·(d+1))

    Example:
        >>> made = ConvQKV(Shape.example(), k=1).project(torch.ones(1, 5, 8), None)
        >>> {name: tuple(x.shape) for name, x in made.items()}
        {'q': (1, 5, 8), 'k': (1, 5, 8), 'v': (1, 5, 8)}
    """

    projections = frozenset("qkv")


def convolved_heads(shape: Shape, fraction: float) -> int:
    """How many heads are convolved; raises RelposError where `fraction` says no whole number of 1
    or more."""
    heads = round(fraction * shape.heads)
    # Not exactly: 0.28 · 25 is not 7 in binary.
    if not heads or abs(fraction * shape.heads - heads) > 1e-9:
        raise RelposError(f"fraction={fraction} of {shape.heads} heads is no whole number")
    return heads
