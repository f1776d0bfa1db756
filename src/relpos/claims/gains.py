"""The difference between two rows of one scale, over their seeds."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from relpos.claims.scales import Scale, Seed
from relpos.tables.columns import GLUE, means_by
from relpos.tables.statistics import Difference, independent, paired

MEAN = "glue"
Unit = int | Seed
T = TypeVar("T")


@dataclass(frozen=True)
class Gain:
    """`first` − `second` in one column, or in the mean of the columns that both have.

    Args:
        value: difference of the means, × 100.
        found: with interval; None where a row has one unit only.
        pairs: the difference of each unit that both have: see `units`.
        by_pretrainings: whether the units are pre-trainings, two or more of each row.
        said: `composite − absolute +3.2 [+1.0, +5.4], 10 seeds`.
    """

    value: float
    found: Difference | None
    pairs: dict[Unit, float]
    by_pretrainings: bool
    said: str


def gain(
    scale: Scale, first: str, second: str, column: str = MEAN, only: Sequence[str] | None = None, as_given: bool = False
) -> Gain | None:
    """None where one of the rows has nothing in this column.

    Args:
        scale: whose rows.
        first: row that is expected to be better.
        second: the other one.
        column: of GLUE, or `glue`: the mean of the nine, or of those that both rows have. Columns in which neither is better than
            the constant answer are left out; where none is left there is no difference to speak of.
        only: for the mean, these columns alone.
        as_given: none of these is left out.
    """
    there = among(scale.columns(first, second), only if column == MEAN else [column])
    if not there:
        return None
    columns = there if as_given else among(there, scale.telling(first, second))
    if not columns:
        return Gain(0.0, None, {}, False, f"{first} and {second}: at the constant answer in {', '.join(there)}")
    singles = tuple(values(scale, row, columns) for row in (first, second))
    if not all(singles):
        return None
    own, other = units(*singles)
    shared = among(own, other)
    if len(shared) >= 2:
        found = paired([own[unit] for unit in shared], [other[unit] for unit in shared])
    else:
        found = independent(list(own.values()), list(other.values()))
    value = found.value if found else _mean((own or singles[0]).values()) - _mean((other or singles[1]).values())
    by_pretrainings = any(isinstance(unit, int) for unit in own)
    kind = "pre-training" if by_pretrainings else "fine-tuning"
    few = "one run each" if len(own) == len(other) == 1 else "too few seeds in common"
    spread = f"[{found.low:+.1f}, {found.high:+.1f}] over {found.n} {kind} seeds" if found else f"({few})"
    said = f"{first} − {second} {value:+.1f} {spread}{_where(columns)}"
    return Gain(value, found, {unit: own[unit] - other[unit] for unit in shared}, by_pretrainings, said)


def gains_alike(
    pairs: Sequence[tuple[Scale, str, str]], column: str = MEAN, only: Sequence[str] | None = None
) -> list[Gain | None]:
    """The gain of each pair of rows, of one scale or of several, all in the same columns, so that they can be set side by side.

    These are the columns that all rows have and in which some row of some scale is better than the constant answer: another scale
    where none is has no gain there, which counts.
    """
    common = [name for name in GLUE if all(name in scale.columns(first, second) for scale, first, second in pairs)]
    common = among(common, only if column == MEAN else [column])
    telling = [name for name in common if any(name in scale.telling(first, second) for scale, first, second in pairs)]
    return [gain(*pair, column, telling or common, as_given=bool(telling)) for pair in pairs]


def among(names: Iterable[T], only: Container[T] | None) -> list[T]:
    """Those of `names` that are in `only`; None: all."""
    return [name for name in names if only is None or name in only]


def values(scale: Scale, row: str, columns: Sequence[str]) -> dict[Seed, float]:
    """Fine-tuning → mean of the columns, where every column is there."""
    scores = [scale.scores[row][column].values for column in columns]
    return {seed: _mean([one[seed] for one in scores]) for seed in scores[0] if all(seed in other for other in scores)}


def units(own: Mapping[Seed, float], other: Mapping[Seed, float]) -> tuple[dict[Unit, float], dict[Unit, float]]:
    """What is compared of two rows, the same of both: pre-trainings where both have several, else fine-tunings.

    Where one alone has several, the fine-tunings of the pre-training seeds that both have.
    """
    several = [len({seed for seed, _ in some}) > 1 for some in (own, other)]
    if any(several) and not all(several):
        shared = {seed for seed, _ in own} & {seed for seed, _ in other}
        own, other = ({seed: value for seed, value in some.items() if seed[0] in shared} for some in (own, other))
    return pretraining_means(own), pretraining_means(other)


def pretraining_means(single: Mapping[Seed, float]) -> dict[Unit, float]:
    """Of several pre-trainings the mean over the fine-tunings of each, which are not independent of each other; else as given."""
    found: dict[Unit, float] = means_by([seed for seed, _ in single], list(single.values()))
    return dict(single) if len(found) < 2 else found


def _where(columns: Sequence[str]) -> str:
    if len(columns) == len(GLUE):
        return ""
    return f" in {columns[0]}" if len(columns) == 1 else f" in the mean of {', '.join(columns)}"


def _mean(some: Collection[float]) -> float:
    return sum(some) / len(some)
