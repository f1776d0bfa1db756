"""What a measure is: from a network to kept values, and from these to columns of a table, figures
and claims.

A new measure is a file in `kinds/`. It is found there: its name is the file's, and `relpos order`
measures it, by runs that keep its results, and tables have its columns. It is a dataclass whose
fields are its dials.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from relpos import style
from relpos.analysis.resampling import Ends, Floats
from relpos.errors import RelposError, nearest
from relpos.files import replacing
from relpos.measures import kinds
from relpos.ranges import Count
from relpos.readers import Plain

if TYPE_CHECKING:
    from relpos.data.examples import ExampleSet
    from relpos.measures.sample import Sample

NATS = "nats"
"""The metric of a column that is not a score: it is shown with more decimals, and has no best."""


Form = Literal["within_word", "plain"]
"""Forms of a pseudo-log-likelihood."""


class Dials(TypedDict):
    """Keys of `relpos order` and of a table's stage `order` that set the fields of this name in all
    measures that have it."""

    examples: Count
    form: Form
    pairs: Plain


class NothingToMeasure(RelposError):
    """There is no text for a measure, or there are no pairs."""


@dataclass(frozen=True)
class MeasuredColumn:
    """A column that a measure gives to a table.

    Args:
        name: its key in `table.json`.
        title: its head in the table.
        metric: accuracy, or `NATS`.
        bounds: the least and the largest possible value; None: there are none.
        snapshots_only: the column is shown for snapshots alone, because the table has its value at
            the end elsewhere.
    """

    name: str
    title: str
    metric: str = NATS
    bounds: Ends | None = None
    snapshots_only: bool = False


@dataclass(frozen=True)
class Figure:
    """One network's value in a column.

    Args:
        value: in the unit of the column.
        interval: 95 %, over examples or over pairs of these paradigms.
        n: number of pairs.
        parts: (2, examples or pairs): the value is the sum of the first line over the sum of the
            second; None: no bootstrap.
        groups: the paradigm of each pair.
        documents: the number of each example's document; None where it was not kept.
        guess: what guessing gives; None where that means nothing.
    """

    value: float
    interval: Ends | None = None
    n: int | None = None
    parts: Floats | None = None
    groups: tuple[str, ...] | None = None
    documents: Sequence[float] | None = None
    guess: float | None = None

    @property
    def examples(self) -> int:
        """Number of examples or pairs of the parts; 0 where they were not kept."""
        return 0 if self.parts is None else self.parts.shape[1]

    @staticmethod
    def of_examples(
        value: float,
        interval: Ends | None,
        by_example: Mapping[str, Sequence[float]],
        key: str,
    ) -> Figure:
        """A mean over predicted tokens; `by_example` is made by the function below, `key` is the
        quantity in it. Without the quantity the value has no parts."""
        if key not in by_example:
            return Figure(value, interval)
        parts = np.array([by_example[key], by_example["predicted"]], np.float64)
        return Figure(value, interval, parts=parts, documents=by_example.get("document"))


def by_example(examples: ExampleSet, predicted: Floats, **nats: Floats) -> dict[str, list[float]]:
    """For each example its document, its number of predicted tokens, and sums over these in nats.

    An interval over several networks draws examples anew, and an error over documents needs the
    examples of each.
    """
    return {
        "document": examples.documents().astype(int).tolist(),
        "predicted": predicted.astype(int).tolist(),
        # four digits keep it small
        **{name: values.round(4).tolist() for name, values in nats.items()},
    }


def plain(values: ArrayLike) -> object:
    """A tensor or an array as lists of numbers with six digits, None in place of NaN."""
    values = np.asarray(values, np.float64)
    if values.ndim:
        return [plain(part) for part in values]
    return None if np.isnan(values) else float(f"{values:.6g}")


@dataclass(frozen=True)
class Measured:
    """A network's results, as figures and claims read them.

    Args:
        name: of the network, or of the row of a table that it belongs to: those of one name are
            drawn as their mean.
        results: of the network.
        course: per cent of the steps → the results of the network as it was then.
        scores: the numbers in its training's record, such as `heldout_loss`.
    """

    name: str
    results: Plain
    course: Mapping[int, Plain] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Drawing:
    """A table and its figure, either of which may be missing: `NAME.csv`, `NAME.png`,
    `NAME.pdf`."""

    name: str
    rows: Sequence[Mapping[str, object]] = ()
    figure: object = None

    def save(self, folder: Path, suffixes: Sequence[str] = ("png", "pdf")) -> list[Path]:
        """Writes the files, floats with six digits, and the figure in the formats of these
        suffixes; returns their paths."""
        paths = []
        if self.rows:
            paths.append(folder / f"{self.name}.csv")
            with (
                replacing(paths[0]) as temporary,
                temporary.open("w", newline="", encoding="utf-8") as file,
            ):
                writer = csv.writer(file)
                writer.writerow(self.rows[0])
                writer.writerows(map(_digits, row.values()) for row in self.rows)
        if self.figure is not None:
            for suffix in suffixes:
                paths.append(folder / f"{self.name}.{suffix}")
                style.save(self.figure, paths[-1])
        return paths


def _digits(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


@dataclass(frozen=True)
class Measure:
    """One thing that is measured of a network, and how."""

    place: ClassVar[int] = 100
    """Rank among the measures: they are measured, and shown, in this order."""
    columns: ClassVar[tuple[MeasuredColumn, ...]] = ()
    note: ClassVar[str] = ""
    """The explanation of its columns below a table."""
    details: ClassVar[tuple[str, ...]] = ()
    """Keys of the results that only the intervals over several networks need: they are kept, and
    not shown."""
    is_kept: ClassVar[bool] = True
    """Whether the results are plain values, which are kept. Maps are not: they are large, and made
    of the weights in a second."""
    has_course: ClassVar[bool] = False
    """Whether its figures show the snapshots, too."""
    by_name: ClassVar[bool] = False
    """Whether it is measured only where it is named, because it takes long passes or is about the
    weights."""

    @property
    def at_end(self) -> list[MeasuredColumn]:
        """Its columns of the network at the end of a pre-training."""
        return [column for column in self.columns if not column.snapshots_only]

    @property
    def name(self) -> str:
        """The name of its file."""
        return type(self).__module__.rpartition(".")[2]

    def dials(self) -> dict[str, object]:
        """Its fields, as plain values."""
        return asdict(self)

    def meaning(self, toy: bool) -> dict[str, object]:
        """Everything but the network that the results depend on, as plain values: its fields.
        Results of another meaning are kept beside these.

        Args:
            toy: whether the network has read the embedded language.

        Raises:
            NothingToMeasure: there is nothing to measure such a network on.
        """
        return self.dials()

    def measure(self, sample: Sample) -> Plain:
        """The results, as plain values; `order.json` shows them.

        Raises:
            NothingToMeasure: there is nothing to measure this network on.
        """
        raise NotImplementedError

    def figure(self, column: str, results: Plain) -> Figure | None:
        """The value of one of its columns; None where it was not measured. The results are those of
        all measures together."""
        return None

    def draw(self, networks: Sequence[Measured]) -> Iterator[Drawing]:
        """Figures of several networks, by default `drawn` of each. The results are those of all
        measures together."""
        for network in networks:
            yield from self.drawn(network.name, network.results)

    def drawn(self, name: str, results: Plain) -> Iterator[Drawing]:
        """Figures of one network."""
        yield from ()

    def said(self, results: Plain) -> list[str]:
        """The main results in a few words each, for one line on the terminal: by default the values
        of its columns."""
        phrases = []
        for column in self.at_end:
            if figure := self.figure(column.name, results):
                digits = 1 + 2 * (column.metric == NATS)
                phrases.append(f"{column.title} {figure.value:.{digits}f}")
        return phrases


def measures() -> list[Measure]:
    """All measures whose results are kept, with their default dials, in their order."""
    of_files = (_of_file(module.name) for module in iter_modules(kinds.__path__))
    return sorted(of_files, key=lambda measure: (measure.place, measure.name))


@cache
def _of_file(name: str) -> Measure:
    path = f"{kinds.__name__}.{name}"
    classes = [value for value in vars(import_module(path)).values() if isinstance(value, type)]
    # Exactly one for each file, which is how a new measure is found without a list of them.
    [measure] = [cls for cls in classes if issubclass(cls, Measure) and cls.__module__ == path]
    return measure()


def chosen(
    names: Iterable[str] | None,
    dials: Mapping[str, object] = MappingProxyType({}),
) -> list[Measure]:
    """The measures of these names in this order; None: all measures. A dial sets the field of its
    name in all that have it.

    Raises:
        RelposError: there is no such measure.
    """
    by_name = {measure.name: measure for measure in measures()}
    selection = []
    for name in by_name if names is None else names:
        if name not in by_name:
            raise RelposError(f"measure={name}: no such measure.{nearest(name, by_name)}")
        own = {dial: dials[dial] for dial in by_name[name].dials() if dial in dials}
        selection.append(replace(by_name[name], **own))
    return selection


def measured_columns() -> dict[str, tuple[Measure, MeasuredColumn]]:
    """Name of a column → its measure and itself, for all measures, in the order in which they are
    shown."""
    return {column.name: (measure, column) for measure in measures() for column in measure.columns}
