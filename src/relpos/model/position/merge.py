"""Several schemes at once: each fills its holes, and what meets in one hole is added."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from relpos.errors import RelposError
from relpos.model.position.base import Input, Position, Scheme, Terms
from relpos.model.shape import Heads, Shape, Turned
from relpos.ranges import checked


class Merge(Scheme):
    """T = Σ T of the parts, and so the rows added to the embeddings; turns follow each other in the
    order of the list.

    The parts see the same q and k, as projected. The attention kernel is given one sum of terms,
    windows extended to the widest, so that a merge costs little more than its most expensive part.

    Args:
        parts: constructors of schemes, each called with the shape.

    Raises:
        RelposError: no parts, or parts that disagree on the scale of q·k, on the number of heads or
            on the width of queries; later, tables of values that end differently.

    Example:
        >>> from relpos.model.position import Absolute, Alibi
        >>> merged = Merge(Shape.example(), [Absolute, Alibi])
        >>> merged.embed(3).shape, merged.terms(0, *torch.ones(2, 1, 2, 3, 4), merged.prepare(3)).offset.shape
        (torch.Size([3, 6]), torch.Size([2, 5]))
    """

    between = " + "  # its parts' names

    @checked
    def __init__(self, shape: Shape, parts: Sequence[Position]) -> None:
        super().__init__(shape)
        if not parts:
            raise RelposError(f"{type(self).__name__} needs at least one part")
        if not all(map(callable, parts)):
            raise RelposError(f"{type(self).__name__} needs constructors of schemes, not {parts!r}")
        self.parts: Sequence[Scheme] = nn.ModuleList(part(shape) for part in parts)  # type: ignore[assignment]
        # The attention multiplies q·k by one factor.
        first = self.parts[0]
        for part in self.parts:
            if part.scale != first.scale:
                of_first, of_part = (
                    f"{name_of(first)} multiplies q·k by {_factor(first)}",
                    f"{name_of(part)} by {_factor(part)}",
                )
                raise RelposError(f"{type(self).__name__}: {of_first}, {of_part}; they have no sum")
        self.projections = frozenset().union(*(part.projections for part in self.parts))
        self.maps = frozenset().union(*(part.maps for part in self.parts))
        self.max_length = min(
            (part.max_length for part in self.parts if part.max_length is not None), default=None
        )
        self.same_each_step = all(part.same_each_step for part in self.parts)
        self.reads_ahead = any(part.reads_ahead for part in self.parts)
        self.paired = any(part.paired for part in self.parts)
        self.splits = any(part.splits for part in self.parts)
        self.widens = any(part.widens for part in self.parts)
        self.check_heads()

    def check_heads(self) -> None:
        """Raises RelposError where a part splits the heads for which another has terms, or those
        whose queries another makes wider, or turns such queries."""
        # A part that turns queries and keys does so before heads are split, and may stay.
        acting = [
            part for part in self.parts if part.splits or type(part).terms is not Scheme.terms
        ]
        if self.splits and len(acting) > 1:
            splitting = next(part for part in acting if part.splits)
            other = next(part for part in acting if part is not splitting)
            raise RelposError(
                f"{name_of(splitting)} makes two heads of each, and {name_of(other)} acts "
                f"on the scores of whole ones"
            )
        for number, part in enumerate(self.parts):
            if part.turns and any(other.widens for other in self.parts[:number]):
                raise RelposError(
                    f"{name_of(part)} turns queries that a part before it has made "
                    f"wider: name it before that part"
                )
            if part.splits and self.widens:
                raise RelposError(
                    f"{name_of(part)} splits heads: another scheme makes queries wider than values"
                )

    @property
    def scale(self) -> float | None:
        return self.parts[0].scale

    @property
    def acts_on_scores(self) -> bool:
        return any(part.acts_on_scores for part in self.parts)

    @property
    def turns(self) -> bool:
        return any(part.turns for part in self.parts)

    def begin_step(self, step: int) -> None:
        for part in self.parts:
            part.begin_step(step)

    def embed(self, n: int) -> Float[Tensor, "{n} embedding"] | None:
        rows = [row for part in self.parts if (row := part.embed(n)) is not None]
        return reduce(add, rows) if rows else None

    def prepare(self, n: int) -> list[Any]:
        return [part.prepare(n) for part in self.parts]

    def see(self, layer: int, given: Input, state: list[Any]) -> list[Any]:
        return [part.see(layer, given, own) for part, own in zip(self.parts, state, strict=True)]

    def turn(
        self,
        layer: int,
        q: Heads,
        k: Heads,
        v: Heads,
        state: list[Any],
    ) -> tuple[Turned, Turned, Heads]:
        for part, own in zip(self.parts, state, strict=True):
            q, k, v = part.turn(layer, q, k, v, own)
        return q, k, v

    def split(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        for part in self.parts:
            q, k, v = part.split(layer, q, k, v)
        return q, k, v

    def terms(self, layer: int, q: Any, k: Any, state: list[Any]) -> Terms:
        return reduce(
            add, (part.terms(layer, q, k, own) for part, own in zip(self.parts, state, strict=True))
        )

    def count(self, shape: Shape) -> int:
        return sum(part.count(shape) for part in self.parts)

    def check_length(self, n: int) -> None:
        for part in self.parts:
            part.check_length(n)


def name_of(scheme: Scheme) -> str:
    """The class of a scheme; of a merge its parts' classes, `Absolute + Tisa`; of a list by layers,
    `Rope | NoPosition`."""
    return (
        scheme.between.join(map(name_of, scheme.parts))
        if isinstance(scheme, Merge)
        else type(scheme).__name__
    )


def _factor(part: Scheme) -> str:
    return "nothing (it has none)" if part.scale is None else f"{part.scale:.4g}"
