"""Several convolutions in one layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

from jaxtyping import Float
from torch import Tensor, nn

from relpos.errors import RelposError
from relpos.model.conv.base import Conv
from relpos.model.dropout import Draw
from relpos.model.shape import Heads, Hidden, Mask, Shape


class MergedConvs(Conv):
    """Each of q, k, v is made by one part at most, heads without scores belong to one at most, what
    comes after is the sum.

    Example:
        >>> from functools import partial
        >>> from relpos.model.conv import ConvQK, Depthwise
        >>> merged = MergedConvs(Shape.example(), [partial(Depthwise, k=1), partial(ConvQK, k=1)])
        >>> merged.name, sorted(merged.projections)
        ('MergedConvs(Depthwise, ConvQK)', ['k', 'q'])
    """

    def __init__(self, shape: Shape, parts: Sequence[Callable[[Shape], Conv]]) -> None:
        super().__init__(shape)
        if not isinstance(parts, list | tuple) or not parts or not all(map(callable, parts)):
            raise RelposError(f"conv.parts must be a list of convolutions, not {parts!r}")
        self.parts: Sequence[Conv] = nn.ModuleList(part(shape) for part in parts)  # type: ignore[assignment]
        for first, second in combinations(self.parts, 2):
            _check_apart(first, second)
        self.projections = frozenset().union(*(part.projections for part in self.parts))
        self.reads = frozenset().union(*(part.reads for part in self.parts))
        self.places = frozenset().union(*(part.places for part in self.parts))
        self.reads_ahead = any(part.reads_ahead for part in self.parts)

    @property
    def name(self) -> str:
        return f"{super().name}({', '.join(part.name for part in self.parts)})"

    @property
    def scored_heads(self) -> int:
        return min(part.scored_heads for part in self.parts)

    def project(self, x: Hidden, mask: Mask | None) -> dict[str, Float[Tensor, "batch n _"]]:
        return {name: y for part in self.parts for name, y in part.project(x, mask).items()}

    def heads(
        self,
        x: Hidden,
        q: Float[Tensor, "batch scored_heads n head_dim"] | None,
        v: Heads,
        mask: Mask | None,
        dropout: Draw | tuple[float, int],
    ) -> Heads:
        # Heads without scores belong to one part at most: that with the fewest scored heads.
        owner = min(self.parts, key=lambda part: part.scored_heads)
        return owner.heads(x, q, v, mask, dropout)

    def after(self, v: Hidden, mask: Mask | None) -> Hidden | None:
        total = None
        for part in self.parts:
            added = part.after(v, mask)
            if added is not None:
                total = added if total is None else total + added
        return total

    def act(
        self,
        place: str,
        y: Float[Tensor, "batch n channels"],
        x: Hidden,
        mask: Mask | None,
    ) -> Float[Tensor, "batch n channels"]:
        """By one part after the other, in the order of the list."""
        for part in self.parts:
            if place in part.places:
                y = part.act(place, y, x, mask)
        return y

    def count(self, shape: Shape) -> int:
        return sum(part.count(shape) for part in self.parts)


Merge = MergedConvs
"""The name that configurations give."""


def _check_apart(first: Conv, second: Conv) -> None:
    """Raises RelposError where both make the same projection, or one takes heads from the scores
    that the other also works on."""
    both = sorted(first.projections & second.projections)
    if both:
        raise RelposError(f"conv.parts: {first.name} and {second.name} both make {', '.join(both)}")
    narrow, wide = sorted((first, second), key=lambda part: part.scored_heads)
    replaced, changed = (sorted(names & {"q", "k"}) for names in (wide.projections, wide.places))
    if narrow.scored_heads < narrow.shape.heads and (
        replaced or changed or wide.scored_heads < wide.shape.heads
    ):
        taken = (
            f"makes {', '.join(replaced)} for all"
            if replaced
            else f"changes {', '.join(changed)} in all"
            if changed
            else "takes some too"
        )
        raise RelposError(
            f"conv.parts: {narrow.name} takes heads from the scores, and {wide.name} {taken}"
        )
