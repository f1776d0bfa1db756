"""The difference between two rows of one scale, over their seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relpos.tables.claims.scales import Scale, Seed
from relpos.tables.statistics import Difference, independent, paired
from relpos.tables.table import GLUE

MEAN = "glue"
Unit = int | Seed


@dataclass(frozen=True)
class Gain:
    """`first` − `second` in one column, or in the mean of the columns that both have.

    Args:
        value: difference of the means, × 100.
        found: with interval; None where a row has one unit only.
        pairs: the difference of each unit that both have: of each pre-training seed where they share two or more, else of each
            fine-tuning seed.
        said: `composite − absolute +3.2 [+1.0, +5.4], 10 seeds`.
    """

    value: float
    found: Difference | None
    pairs: dict[Unit, float]
    said: str


def gain(scale: Scale, first: str, second: str, column: str = MEAN, only: Sequence[str] | None = None) -> Gain | None:
    """None where one of the rows has nothing in this column.

    Args:
        scale: whose rows.
        first: row that is expected to be better.
        second: the other one.
        column: of GLUE, or `glue`: the mean of the nine, or of those that both rows have. Columns in which neither is better than
            the constant answer are left out; where none is left there is no difference to speak of.
        only: for the mean, these columns alone.
    """
    there = scale.columns(first, second) if column == MEAN else [column] if column in scale.columns(first, second) else []
    there = [name for name in there if only is None or name in only]
    if not there:
        return None
    columns = [name for name in there if name in scale.telling(first, second)]
    if not columns:
        return Gain(0.0, None, {}, f"{first} and {second}: at the constant answer in {', '.join(there)}")
    own, other = (values(scale, row, columns) for row in (first, second))
    if not own or not other:
        return None
    shared = [unit for unit in own if unit in other]
    pairs = {unit: own[unit] - other[unit] for unit in shared}
    if len(shared) >= 2 or len(own) < 2 or len(other) < 2:
        found = paired([own[unit] for unit in shared], [other[unit] for unit in shared])
    else:
        found = independent(list(own.values()), list(other.values()))
    value = found.value if found else _mean(list(own.values())) - _mean(list(other.values()))
    return Gain(value, found, pairs, _said(first, second, columns, value, found, _unit_name(own, other)))


def values(scale: Scale, row: str, columns: Sequence[str]) -> dict[Unit, float]:
    """Unit → mean of the columns: fine-tuning seeds of which every column is there; of several pre-trainings, their means."""
    scores = [scale.scores[row][column].values for column in columns]
    seeds = [seed for seed in scores[0] if all(seed in other for other in scores)]
    single = {seed: _mean([one[seed] for one in scores]) for seed in seeds}
    by_pretraining: dict[int, list[float]] = {}
    for (pretrain_seed, _), value in single.items():
        by_pretraining.setdefault(pretrain_seed, []).append(value)
    if len(by_pretraining) < 2:
        return dict(single)
    return {seed: _mean(some) for seed, some in by_pretraining.items()}


def _unit_name(own: dict[Unit, float], other: dict[Unit, float]) -> str:
    kinds = {"fine-tuning" if isinstance(unit, tuple) else "pre-training" for unit in (*own, *other)}
    return f"{kinds.pop()} seeds" if len(kinds) == 1 else "seeds"


def _said(first: str, second: str, columns: Sequence[str], value: float, found: Difference | None, units: str) -> str:
    where = (
        "" if len(columns) == len(GLUE) else f" in {columns[0]}" if len(columns) == 1 else f" in the mean of {', '.join(columns)}"
    )
    spread = f" [{found.low:+.1f}, {found.high:+.1f}] over {found.n} {units}" if found else " (one run each)"
    return f"{first} − {second} {value:+.1f}{spread}{where}"


def _mean(some: Sequence[float]) -> float:
    return sum(some) / len(some)
