"""Another scheme in each layer: a list that the layers go through again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from relpos.errors import RelposError
from relpos.model.position.base import Input, Position, Terms
from relpos.model.position.merge import Merge
from relpos.model.shape import Heads, Shape, Turned
from relpos.ranges import checked


class Layers(Merge):
    """T^(ℓ) = T of layers[ℓ mod P], a list of P schemes; turns and reach likewise. ℓ counts passes
    from 0, so that layers with shared weights take their turns, too.

    A scheme of the list has parameters for its own layers alone, ℓ // P being the number of its
    layer. Rows that it adds to the embeddings come before the first layer, wherever it stands in
    the list. Schemes for which there is no layer are not made.

    `cycle=false` does not begin again: the last scheme of the list serves all remaining layers.

    Args:
        layers: constructors of schemes, each called with the shape and the number of its layers.

    Raises:
        RelposError: no schemes, or schemes that disagree on the scale of q·k.

    Example:
        >>> from relpos.model.position import Fixed, NoPosition
        >>> scheme = Layers(replace(Shape.example(), layers=5), [Fixed, NoPosition])
        >>> [scheme.at(layer) for layer in range(5)], scheme.parts[0].beta.shape  # layers, heads, offsets
        ([(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)], torch.Size([3, 2, 17]))
    """

    between = " | "

    @checked
    def __init__(self, shape: Shape, layers: Sequence[Position], cycle: bool = True) -> None:
        if not layers:
            raise RelposError("Layers needs at least one scheme")
        if not all(map(callable, layers)):
            raise RelposError(f"Layers needs constructors of schemes, not {layers!r}")
        served = [_place(layer, len(layers), cycle)[0] for layer in range(shape.layers)]
        super().__init__(
            shape,
            [
                _of(part, served.count(place))
                for place, part in enumerate(layers)
                if place in served
            ],
        )
        self.period, self.cycle = len(layers), cycle

    def at(self, layer: int) -> tuple[int, int]:
        """The place in the list of the scheme that serves a layer, and which of its own layers this
        is."""
        return _place(layer, self.period, self.cycle)

    def check_heads(self) -> None:
        """Schemes of different layers share no scores."""

    def see(self, layer: int, given: Input, state: list[Any]) -> list[Any]:
        place, own = self.at(layer)
        # A new list: the scheme's other layers start from what `prepare` made, too.
        return [
            *state[:place],
            self.parts[place].see(own, given, state[place]),
            *state[place + 1 :],
        ]

    def turn(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        v: Heads,
        state: list[Any],
    ) -> tuple[Turned, Turned, Heads]:
        place, own = self.at(layer)
        return self.parts[place].turn(own, q, k, v, state[place])

    def split(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        place, own = self.at(layer)
        return self.parts[place].split(own, q, k, v)

    def terms(self, layer: int, q: Any, k: Any, state: list[Any]) -> Terms:
        place, own = self.at(layer)
        return self.parts[place].terms(own, q, k, state[place])

    def count(self, shape: Shape) -> int:
        served = [self.at(layer)[0] for layer in range(shape.layers)]
        return sum(
            part.count(replace(shape, layers=served.count(place)))
            for place, part in enumerate(self.parts)
        )


def _place(layer: int, period: int, cycle: bool) -> tuple[int, int]:
    if cycle:
        return layer % period, layer // period
    place = min(layer, period - 1)
    return place, layer - place


def _of(part: Position, layers: int) -> Position:
    """The constructor of a scheme that serves so many layers."""
    return lambda shape: part(replace(shape, layers=layers))
