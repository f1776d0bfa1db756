"""Draws that are the same on every machine: of `Random` only `random` is used, which no Python version has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")
ATTEMPTS = 10_000  # bounds every rejection loop; the toy language's strictest, for two events of dev or test, accepts 1 % of draws


class Chance:
    """A stream of draws named by plain values: `Chance(seed, "CoLA", "dev")` is the same whatever else was drawn."""

    def __init__(self, *names: object) -> None:
        self._random = Random(":".join(map(str, names)))  # a string is hashed by SHA-512, not by `hash`

    def below(self, count: int) -> int:
        return int(self._random.random() * count)

    def coin(self, probability: float = 0.5) -> bool:
        return self._random.random() < probability

    def pick(self, values: Sequence[T]) -> T:
        return values[self.below(len(values))]

    def distinct(self, values: Sequence[T], count: int) -> list[T]:
        """`count` different entries of `values`, in random order."""
        rest = list(values)
        return [rest.pop(self.below(len(rest))) for _ in range(count)]

    def until(self, draw: Callable[[], T], accept: Callable[[T], bool]) -> T:
        """The first draw that is accepted.

        Raises:
            RuntimeError: none of `ATTEMPTS` draws was; the language has no such sentence.
        """
        for _ in range(ATTEMPTS):
            value = draw()
            if accept(value):
                return value
        raise RuntimeError(f"no draw was accepted in {ATTEMPTS} attempts")
