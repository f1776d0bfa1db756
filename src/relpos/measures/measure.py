"""What a measure is: from a network to figures, and from figures to columns of a table.

A new measure is a file in `kinds/`. It is found there: its name is the file's, and `relpos order` measures it, keeps its figures in
the runs' folders, and tables have its columns. torch is loaded where something is measured, not where kept figures are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from relpos.errors import RelposError, nearest
from relpos.measures import kinds

if TYPE_CHECKING:
    from relpos.measures.dials import Dials
    from relpos.measures.sample import Sample
    from relpos.runs.networks import Network

Results = dict[str, Any]
Floats = npt.NDArray[np.float64]
NATS = "nats"
"""The metric of a column that is not a score: it is shown with more decimals, and has no best."""


@dataclass(frozen=True)
class MeasuredColumn:
    """A column that a measure gives to a table.

    Args:
        name: its key in `table.json`.
        title: its head in the table.
        metric: accuracy, or `NATS`.
        bounds: the least and the largest possible value; None: there are none.
        snapshots_only: the column is shown for snapshots alone, because the table has its value at the end elsewhere.
    """

    name: str
    title: str
    metric: str = NATS
    bounds: tuple[float, float] | None = None
    snapshots_only: bool = False


@dataclass(frozen=True)
class Figure:
    """One network's value in a column.

    Args:
        value: in the unit of the column.
        interval: 95 %, over examples or over pairs of these paradigms.
        n: number of pairs.
        parts: (2, examples or pairs): the value is the sum of the first line over the sum of the second; None: no bootstrap.
        groups: the paradigm of each pair.
        guess: what guessing gives; None where that means nothing.
    """

    value: float
    interval: tuple[float, float] | None = None
    n: int | None = None
    parts: Floats | None = None
    groups: tuple[str, ...] | None = None
    guess: float | None = None


class Measure:
    """One thing that is measured of a network."""

    place: ClassVar[int] = 100
    """Where it stands among the measures: they are measured, and shown, in the order of these numbers."""
    columns: ClassVar[tuple[MeasuredColumn, ...]] = ()
    note: ClassVar[str] = ""
    """Explains its columns below a table."""
    details: ClassVar[tuple[str, ...]] = ()
    """Keys of the results that only the intervals over several networks need: they are kept, and not shown."""

    @property
    def at_end(self) -> list[MeasuredColumn]:
        """Its columns of the network at the end of a pre-training."""
        return [column for column in self.columns if not column.snapshots_only]

    @property
    def name(self) -> str:
        """The name of its file."""
        return type(self).__module__.rpartition(".")[2]

    def suits(self, network: Network) -> bool:
        """Whether it is measured of this network where no measures are named."""
        return True

    def meaning(self, dials: Dials, toy: bool) -> dict[str, Any]:
        """Everything but the network that the results depend on, as plain values: results of another meaning are kept beside these.

        Args:
            dials: what the user chose.
            toy: whether the network was trained on the embedded language.

        Raises:
            NothingToMeasure: there is nothing to measure such a network on.
        """
        return {}

    def measure(self, sample: Sample) -> Results:
        """The results, as plain values; `order.json` shows them.

        Raises:
            NothingToMeasure: there is nothing to measure this network on.
        """
        raise NotImplementedError

    def figure(self, column: str, results: Results) -> Figure | None:
        """The value of one of its columns; None where it was not measured. The results are those of all measures together."""
        return None

    def tokens(self, dials: Dials, toy: bool, length: int) -> float:
        """About how many tokens go through the network, for an estimate of time.

        Args:
            dials, toy: as of `meaning`.
            length: of the network's examples, in tokens.
        """
        return 0.0

    def said(self, results: Results) -> list[str]:
        """The main results in a few words each, for one line on the terminal."""
        return []


def measures() -> list[Measure]:
    """All measures, in their order."""
    found = [_of_file(module.name) for module in iter_modules(kinds.__path__)]
    return sorted(found, key=lambda measure: (measure.place, measure.name))


@cache
def _of_file(name: str) -> Measure:
    module = import_module(f"{kinds.__name__}.{name}")
    # Exactly one for each file, which is how a new measure is found without a list of them.
    [kind] = [
        kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Measure) and kind is not Measure
    ]
    return kind()


def chosen(names: Iterable[str] | None) -> list[Measure]:
    """The measures of these names, in the order in which they are named; all where it is None.

    Raises:
        RelposError: there is no such measure.
    """
    known = {measure.name: measure for measure in measures()}
    if names is None:
        return list(known.values())
    for name in names:
        if name not in known:
            raise RelposError(f"measure={name}: no such measure.{nearest(name, known)}")
    return [known[name] for name in names]


def measured_columns() -> dict[str, tuple[Measure, MeasuredColumn]]:
    """Name of a column → its measure and itself, for all measures, in the order in which they are shown."""
    return {column.name: (measure, column) for measure in measures() for column in measure.columns}
