"""Every number of every finished run, read once into one long table, from which claims, tables and
figures select.

A line is a frozen `Value` and the table a plain list, because importing pandas would make `relpos
claims` half as slow again. Runs whose records lack something are named on stderr and left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from relpos.errors import RelposError, one_line, say
from relpos.measures.measure import NATS, Figure, Measure, chosen
from relpos.readers import Plain, check_recorded, read_text
from relpos.runs.run import OfStage, Record
from relpos.runs.shelf import END, common, finished, is_current, most_shared, protocol
from relpos.stages.measure import kept
from relpos.train.metrics import applied

T = TypeVar("T")
PartRates = float | tuple[float, ...]
"""The factor of a learning rate, or those of the parts of a merge."""
Rates = tuple[PartRates, float | None]
"""`recipe.position_lr` and `recipe.conv_lr`, the second only where it differs."""
Seed = tuple[int, int]
"""(seed of the pre-training, seed of the fine-tuning); the second is 0 where there is no
fine-tuning."""
Halves = tuple[float, float]
"""The score × 100 on the even and on the odd examples of a dev set."""
GLUE = ("cola", "mnli_m", "mnli_mm", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb")
"""The nine columns whose mean is GLUE; WNLI is shown, but is not in the mean."""
STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": lambda values: sum(values) / len(values),
    "best": max,
    "median": median,
}
"""How the fine-tunings of a pre-training are summed up."""
LOSS, GAP = "heldout_loss", "shuffle_gap"
"""Columns of pre-trainings: nats of held-out loss and of shuffle gap."""
LONGEST = 5
"""How many fine-tunings of fine-tunings are followed at most: damaged records may name each other
in a circle."""


@dataclass(frozen=True)
class Value(OfStage):
    """One number of one run.

    Args:
        run: the run's folder.
        stage: pretrain or finetune.
        column: a figure of the record such as `heldout_loss`, a column of a task, or one of a
            measure such as `shuffle_gap`.
        value: score × 100, nats, or as the record has it.
        origin: name of the folder of the pre-training; for fine-tunings of a network that the user
            named, that network's folder.
        scale: JSON of what comparable values have in common: the meaning of the pre-trainings
            without seed, scheme and rates, and the name of their text. For a named network: its
            folder. Empty where the folder of runs lacks the pre-training.
        scheme: position scheme and convolution of the pre-training, as JSON. For a named network:
            the `change` made of it.
        rates: of the pre-training.
        pretrain_seed: None for a named network.
        seed: of the fine-tuning; 0 for a pre-training.
        percent: share of the pre-training's steps that the network had done; 100 at the end.
        way: how it was measured, as JSON: the settings of the fine-tunings in between, or those of
            a measure. Values of a column that were measured in two ways are not compared.
        is_current: whether today's code would make the same run, and those that it started from.
        metric: dotted name of the function that scores the dev set, or nats.
        examples: size of the dev set, or the number of examples that a measure was given.
        majority: score of the constant answer.
        answers: the file of the answers on the dev set, where they were kept.
        figure: for a measure: interval, and the parts of which the value is made.
    """

    run: Path
    stage: str
    column: str
    value: float
    origin: str = ""
    scale: str = ""
    scheme: str = ""
    rates: Rates = (1.0, None)
    pretrain_seed: int | None = None
    seed: int = 0
    percent: int = END
    way: str = ""
    is_current: bool = True
    metric: str = ""
    examples: int | None = None
    majority: float | None = None
    answers: Path | None = None
    figure: Figure | None = field(default=None, compare=False)

    @property
    def seeds(self) -> Seed:
        """Its seeds; for a fine-tuning of a named network, which has no pre-training, its own and
        0."""
        if self.pretrain_seed is None:
            return self.seed, 0
        return self.pretrain_seed, self.seed


def read(measured: Collection[str] = ("shuffle",)) -> list[Value]:
    """The numbers of all finished pre-trainings and fine-tunings, and the kept results of measures
    of these names."""
    values: list[Value] = []
    for folder, record in finished("pretrain"):
        with _or_left_out(folder):
            values += pretraining_values(folder, record, measured)
    # By the folders' names: what a run started from may not be here.
    sources = {value.origin: value for value in values}
    tunings = dict(finished("finetune"))
    records = {folder.name: record for folder, record in tunings.items()}
    for folder, record in tunings.items():
        with _or_left_out(folder):
            chain, start = [record], Path(record.inputs["start"])
            while start.name in records and len(chain) < LONGEST:
                chain.append(records[start.name])
                start = Path(chain[-1].inputs["start"])
            values += tuning_values(folder, chain, sources.get(start.name))
    return values


def pretraining_values(
    folder: Path,
    record: Record,
    measured: Collection[str] = (),
) -> Iterator[Value]:
    """The numbers of one pre-training: those of its record, and the kept results of measures of its
    networks."""
    meaning = record.meaning
    inputs = record.inputs
    shared = common(meaning)
    # A network that was trained further is compared with others that began with the same.
    if "start" in inputs:
        shared["start"] = inputs["start"]
    base = Value(
        folder,
        "pretrain",
        "",
        0.0,
        folder.name,
        json.dumps([shared, Path(inputs["store"]).name], sort_keys=True),
        json.dumps({key: meaning[key] for key in ("position", "conv")}, sort_keys=True),
        rates_of(meaning),
        meaning["seed"],
        is_current=is_current(record),
    )
    of_measures: list[Value] = []
    for measure in chosen(measured):
        for entry in kept(folder, measure.name):
            at_time = replace(
                base,
                percent=entry.share,
                way=protocol(entry.meaning, without=()),
                examples=entry.meaning.get("examples"),
            )
            of_measures += figure_values(at_time, measure, entry.results)
    # The record has the loss alone; by example it is kept with the shuffle gap.
    losses = select(of_measures, column=LOSS, percent=END)
    figures = [value.figure for value in losses if value.figure]
    most = max(figures, key=lambda figure: figure.examples, default=None)
    for value in _record_values(base, record):
        yield replace(value, figure=most) if value.column == LOSS else value
    yield from (value for value in of_measures if value not in losses)


def figure_values(base: Value, measure: Measure, results: Plain) -> Iterator[Value]:
    """Values of the columns of a measure, read from a network's results.

    Args:
        base: a value with the run, scale, scheme and seeds of that network.
    """
    for column in measure.columns:
        figure = measure.figure(column.name, results)
        if figure is not None:
            yield replace(
                base,
                column=column.name,
                value=figure.value,
                metric=column.metric,
                majority=figure.guess,
                figure=figure,
            )


def tuning_values(
    folder: Path,
    chain: Sequence[Record],
    source: Value | None,
) -> Iterator[Value]:
    """The numbers of one fine-tuning.

    Args:
        chain: its record, then the records of the fine-tunings that it started from, the first of
            them last.
        source: any value of the pre-training; None if that is not in this folder of runs.
    """
    record, start = chain[0], Path(chain[-1].inputs["start"])
    meaning = record.meaning
    scores: Plain = {"examples": {}, "majority": {}} | record.metrics
    columns, metric = scores["columns"], meaning["task"]["metric"]
    base = Value(
        folder,
        "finetune",
        "",
        0.0,
        str(start),
        seed=meaning["seed"],
        is_current=all(map(is_current, chain)),
    )
    without = ["seed"]
    if source:
        keys = "origin", "scale", "scheme", "rates", "pretrain_seed"
        of_source = {key: getattr(source, key) for key in keys}
        base = replace(base, is_current=base.is_current and source.is_current, **of_source)
    else:
        without.append("change")
        # Below folders of stages lie runs, whose scales are those of their pre-trainings.
        if len(chain) == 1 and start.parent.name not in ("pretrain", "finetune"):
            change = json.dumps(meaning.get("change") or {}, sort_keys=True)
            base = replace(base, scale=json.dumps({"checkpoint": str(start)}), scheme=change)
    way = protocol(*(tuning.meaning for tuning in chain), without=without)
    for value in _record_values(base, record):
        if (column := value.column) in columns:
            path = folder / "dev" / f"{column}.tsv"
            value = replace(
                value,
                way=way,
                metric=metric,
                examples=scores["examples"].get(column),
                majority=scores["majority"].get(column),
                answers=path if path.is_file() else None,
            )
        yield value


def _record_values(base: Value, record: Record) -> Iterator[Value]:
    for name, value in record.figures.items():
        yield replace(base, column=name, value=float(value), metric=NATS if name == LOSS else "")


@contextmanager
def _or_left_out(folder: Path) -> Iterator[None]:
    """Names a finished run on stderr whose record lacks something."""
    try:
        yield
    except (KeyError, TypeError, RelposError) as error:
        say(
            f"relpos: damaged record {folder / 'record.json'}: it lacks something ({error}): "
            "delete the folder to start anew"
        )


def select(values: Iterable[Value], **fields: object) -> list[Value]:
    """The values that have all of these fields.

    >>> [value.value for value in select([Value(Path(), "pretrain", LOSS, 3.0), Value(Path(), "pretrain", GAP, 1.0)], column=GAP)]
    [1.0]
    """
    return [
        value
        for value in values
        if all(getattr(value, key) == content for key, content in fields.items())
    ]


def by(values: Iterable[T], key: str) -> dict[Any, list[T]]:
    """The content of a field → the values, or whatever has it, that have this content."""
    groups: dict[Any, list[T]] = {}
    for value in values:
        groups.setdefault(getattr(value, key), []).append(value)
    return groups


def shared_ways(
    values: Iterable[Value],
    group: Callable[[Value], Hashable] = lambda _: "",
    groups: Collection[Hashable] = ("",),
) -> dict[str, str]:
    """Column → the way of measuring in which these groups of values are compared, see
    `most_shared`.

    Of two equally shared ways the one with more examples counts. By default all values are one
    group.
    """

    def rank(value: Value) -> tuple[int, str]:
        if value.is_tuning:
            return 0, value.run.name
        return -(value.examples or 0), value.way

    ordered = sorted(values, key=rank)
    return most_shared(((value.column, value.way, group(value)) for value in ordered), groups)


def by_pretraining(scores: Mapping[Seed, float], statistic: str = "mean") -> dict[int, float]:
    """Pre-training seed → the mean, best or median of its fine-tunings, which depend on each other.

    >>> by_pretraining({(0, 0): 1.0, (1, 0): 5.0, (0, 1): 3.0})
    {0: 2.0, 1: 5.0}
    """
    tunings: dict[int, list[float]] = {}
    for (pretraining, _), score in scores.items():
        tunings.setdefault(pretraining, []).append(score)
    return {seed: STATISTICS[statistic](of_seed) for seed, of_seed in tunings.items()}


def mean_over(scores: Mapping[Seed, float], statistic: str) -> float:
    """The mean over pre-trainings of a statistic of each one's fine-tunings.

    >>> mean_over({(0, 0): 1.0, (1, 0): 5.0, (0, 1): 3.0}, "best")
    4.0
    """
    return fmean(by_pretraining(scores, statistic).values())


def rates_of(settings: Plain) -> Rates:
    """`position_lr` and, where it differs from that, `conv_lr`, in the configuration or the meaning
    of a run.

    >>> rates_of({"recipe": {"position_lr": [1, 30]}})
    ((1.0, 30.0), None)
    """
    # A run's meaning has no factor where it is 1, the rate of all other parameters.
    recipe = {"position_lr": 1.0, "conv_lr": None} | (settings.get("recipe") or {})
    factor = recipe["position_lr"]
    conv_lr = recipe["conv_lr"]
    position_lr = tuple(map(float, factor)) if isinstance(factor, list) else float(factor)
    if conv_lr in (None, position_lr):
        return position_lr, None
    return position_lr, float(conv_lr)


def slowest(position_lr: PartRates) -> float:
    """The smallest factor of the learning rates of a scheme's parts."""
    return float(np.min(position_lr))


def precedence(rates: Rates) -> tuple[bool, float, float]:
    """A sort key for rates: of several rates with equally many pre-trainings, a row is read at the
    last one.

    That is a rate with a `conv_lr`, then the lowest; the scores do not count.

    >>> max([(30.0, 3.0), (30.0, 1.0), (10.0, None)], key=precedence)
    (30.0, 1.0)
    """
    position_lr, conv_lr = rates
    return conv_lr is not None, -slowest(position_lr), -(conv_lr or 0.0)


def halves(path: Path, metric: str) -> Halves:
    """The scores of a file of answers; `metric` is the dotted name of the function that scores
    them."""
    columns = answers(path).T
    even, odd = (100 * applied(metric, "task.metric", *columns[:, half::2]) for half in (0, 1))
    return even, odd


def answers(path: Path) -> NDArray[np.float64]:
    """(examples, 2): predictions and targets of a dev set, as fine-tuning wrote them.

    Raises:
        RelposError: the file is damaged.
    """
    check_recorded(path)
    try:
        table: NDArray[np.float64] = np.loadtxt(
            read_text(path).splitlines(),
            delimiter="\t",
            skiprows=1,
            ndmin=2,
        )
    except ValueError as error:  # no number, or a line that was cut short
        raise RelposError(f"{path}: damaged: {one_line(error)}") from error
    if not table.size:
        raise RelposError(f"{path}: damaged: it has no answers")
    return table
