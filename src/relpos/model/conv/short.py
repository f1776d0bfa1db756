"""Short depthwise convolutions beside what they convolve, at several places of a layer."""

from __future__ import annotations

from collections.abc import Iterable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from relpos.errors import RelposError
from relpos.model.conv.base import Conv
from relpos.model.conv.separable import DepthwiseConv
from relpos.model.conv.window import depthwise, hide
from relpos.model.initial import normal_
from relpos.model.shape import Hidden, Mask, Shape
from relpos.ranges import Natural, checked


class ShortConv(Conv):
    """The frame of both:

        y_i ← y_i + Σ_r w_r ⊙ y_{i+r}, r = −k..k                      y of padding set to 0; w (channels, 2k+1), no bias

    at each place, with weights of its own. `right=false` ends the window at the token: r = −k..0, w
    (channels, k+1).

    Differs from the authors' code: a decoder, whose four taps read the token and three before it,
    as k=3 and right=false do. By default the window is centred, so that both neighbours are read.
    """

    def __init__(self, shape: Shape, k: int, places: Iterable[str], right: bool) -> None:
        super().__init__(shape)
        self.places = frozenset(places)
        self.right = right
        self.reads_ahead = right and k > 0
        self.width = 2 * k + 1 if right else k + 1
        self.convolutions = nn.ModuleDict(
            {
                place: DepthwiseConv(_channels(shape, place), self.width, bias=False)
                for place in sorted(self.places)
            }
        )

    def act(
        self,
        place: str,
        y: Float[Tensor, "batch n channels"],
        x: Hidden,
        mask: Mask | None,
    ) -> Float[Tensor, "batch n channels"]:
        weight: Tensor = self.convolutions[place].get_parameter("weight")
        if not self.right:
            # the kernels read windows with the token in their middle
            weight = functional.pad(weight, (0, self.width - 1))
        return y + depthwise(hide(y, mask), weight)

    def count(self, shape: Shape) -> int:
        return self.width * sum(_channels(shape, place) for place in self.places)


CANON = {"A": ["input"], "B": ["q", "k", "v"], "C": ["ffn"], "D": ["inner"]}
"""The paper's letters → our places."""


class Canon(ShortConv):
    """Canon layers (Allen-Zhu 2025, "Physics of language models", part 4.1, Canon-ABCD). `places`
    has the paper's letters: A is what the attention reads, B queries, keys and values, C what the
    feed-forward network reads, D its inner vectors before the activation. Weights start uniform in
    ±1/√width, which the authors prefer to N(0, 0.02).

    Parameters: L·(1 + k + k·right)·(5d + F)

    Differs from the paper: its layers have their norm before the attention and before the
    feed-forward network, ours behind them.

    Differs from the authors' code: with `qk_norm` queries and keys are convolved first and then
    normed, there the other way round.

    Raises:
        RelposError: `places` has other letters, or one of them twice.

    Example:
        >>> canon = Canon(Shape.example(), k=1, places="AD")
        >>> sorted(canon.places), canon.convolutions["inner"].weight.shape
        (['inner', 'input'], torch.Size([12, 3]))
    """

    @checked
    def __init__(
        self,
        shape: Shape,
        k: Natural = 2,
        places: str = "ABCD",
        right: bool = True,
    ) -> None:
        places = str(places)  # YAML reads digits as a number
        if not places or len(set(places)) < len(places) or set(places) - set(CANON):
            raise RelposError(
                f"conv.places={places}: some of the letters ABCD are expected, each once"
            )
        super().__init__(shape, k, [name for letter in places for name in CANON[letter]], right)


class InklingConv(ShortConv):
    """The short convolutions of keys and values in Inkling (Inkling 2026, as in Transformers'
    `modular_inkling.py`), between their linear maps and the attention; `position=inkling` is the
    scheme beside them. Weights start from N(0, 0.02).

    Parameters: 2·L·(1 + k + k·right)·d

    Differs from the authors' code: it convolves what leaves attention and feed-forward network,
    too, and in float32.

    Example:
        >>> sorted(InklingConv(Shape.example()).places)
        ['k', 'v']
    """

    @checked
    def __init__(self, shape: Shape, k: Natural = 2, right: bool = True) -> None:
        super().__init__(shape, k, "kv", right)
        for convolution in self.convolutions.values():
            normal_(convolution.get_parameter("weight"), 0.02)


def _channels(shape: Shape, place: str) -> int:
    return shape.ffn if place == "inner" else shape.hidden


Inkling = InklingConv
"""The name that configurations give."""
