"""A network that is analysed, and the table and figure that result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from relpos import style
from relpos.analysis.texts import Texts
from relpos.errors import RelposError
from relpos.model.encoder import Encoder, encoder_of


@dataclass(frozen=True)
class Subject:
    """A trained network.

    Args:
        name: in figures.
        load: returns the network, with or without a head.
        texts: (how many, their length) → held-out texts; None where none are known.
        training_texts: the same, for a head that must be trained; None where none are known.
        snapshots: per cent of the steps → a function that returns the network as it was then.
        scores: name → a result of its training, such as the held-out loss.
    """

    name: str
    load: Callable[[], Any]
    texts: Callable[[int, int], Texts] | None = None
    training_texts: Callable[[int, int], Texts] | None = None
    snapshots: Mapping[int, Callable[[], Any]] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def model(self) -> Any:
        """The network, loaded once."""
        return self.load()

    @property
    def encoder(self) -> Encoder:
        return encoder_of(self.model)

    def some_texts(self, count: int, length: int) -> Texts:
        """Held-out texts.

        Raises:
            RelposError: none are known.
        """
        if self.texts is None:
            raise RelposError(f"{self.name}: held-out text is needed: text=FILE")
        return self.texts(count, length)


@dataclass(frozen=True)
class Drawing:
    """A table and its figure: `NAME.csv`, `NAME.png`, `NAME.pdf`."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    figure: Any = None

    def save(self, folder: Path) -> list[Path]:
        """Writes the files; returns their paths."""
        import csv

        from relpos.files import replacing

        path = folder / f"{self.name}.csv"
        with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(self.rows[0]))
            writer.writeheader()
            writer.writerows({key: _shown(value) for key, value in row.items()} for row in self.rows)
        paths = [path]
        for suffix in ("png", "pdf") if self.figure is not None else ():
            paths.append(folder / f"{self.name}.{suffix}")
            style.save(self.figure, paths[-1])
        return paths


def _shown(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value
