"""When in the training the differences between rows appear, and how well the early ranking of the
rows predicts the last one.

Both are computed from the snapshots that a table has measured (`order_snapshots`): the differences
that claims are about, at each percentage of the steps, with a 95 % interval over pre-trainings from
the pooled errors of all rows at that time. The intervals are
pointwise: each holds for its own time, they are no band for the whole curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from relpos import style
from relpos.config.conf import key_of
from relpos.files import write_json
from relpos.results.contrast import difference
from relpos.results.gain import MEASURES, Contrast
from relpos.results.scale import Scale
from relpos.results.statistics import ALPHA, SEED, Difference, Interval
from relpos.results.values import precedence
from relpos.tables.table import Row, column_values

NAME = "claims_over_training"
"""Name of the figure's file and of the file with its numbers."""
FEWEST = 4
"""The fewest rows whose order is compared."""
RESAMPLES = 2_000
RATES = ("recipe.position_lr", "recipe.conv_lr")
"""Keys in which rows may differ that claims read as one."""


@dataclass(frozen=True)
class Agreement:
    """Spearman's ρ between the ranking of rows at some time and at the end, with a 95 % interval by
    bootstrap over rows."""

    rho: float
    interval: Interval
    rows: int


Claims = Mapping[str, tuple[float, Sequence[Contrast]]]
"""Claim → the bound in nats below which a difference counts as none, and the pairs of rows that it
compares: the result of `relpos.claims.claim.compared`."""
Course = dict[int, Difference]
"""Per cent of the steps → difference of two rows in nats, higher is better."""
Courses = dict[str, tuple[float, dict[Contrast, Course]]]
"""Claim → its bound, and the pairs with their courses."""


def draw(folder: Path, rows: Sequence[Row], claims: Claims, measure: str) -> None:
    """Writes the figure and its numbers, `claims_over_training.png` and `.json`; nothing where no
    snapshot was measured.

    Args:
        folder: of the table.
        rows: of the table, named as in `experiments/claims/rows.yaml`.
        claims: whose differences are drawn.
        measure: `loss` or `order`.
    """
    courses = courses_of(rows, claims, measure)
    ranks = agreements(rows, measure)
    if not courses:
        return
    numbers: dict[str, dict[str, dict[int, object]]] = {}
    for id, (_, pairs) in courses.items():
        numbers[id] = {}
        for pair, course in pairs.items():
            numbers[id][str(pair)] = {
                percent: {
                    "value": gain.value,
                    "interval": [gain.low, gain.high],
                    "freedom": gain.freedom,
                    "seeds": gain.n,
                }
                for percent, gain in course.items()
            }
    of_ranks = {percent: asdict(agreement) for percent, agreement in ranks.items()}
    content = {"measure": measure, "claims": numbers, "ranks": of_ranks}
    write_json(folder / f"{NAME}.json", content)
    _figure(folder / f"{NAME}.png", courses, ranks, measure)


def courses_of(rows: Sequence[Row], claims: Claims, measure: str) -> Courses:
    """The claims of which some pair of rows has snapshots that can be compared."""
    courses: Courses = {}
    # The error is estimated from all rows at that time, because early errors differ from late ones.
    for percent, units in _units(rows, measure).items():
        for id, (bound, pairs) in claims.items():
            for pair in pairs:
                if {*pair} <= units.keys() and (gain := difference(units, *pair)):
                    _, of_claim = courses.setdefault(id, (bound, {}))
                    of_claim.setdefault(pair, {})[percent] = gain
    return courses


def agreements(rows: Sequence[Row], measure: str) -> dict[int, Agreement]:
    """Per cent of the steps → how far the ranking of the rows agrees with the last one; empty for
    too few rows.

    Rows that differ in their rates alone are alike at any time: one of them counts, the one from
    which claims are read.
    """
    twins: dict[object, list[Row]] = {}
    for row in rows:
        scheme = tuple(override for override in row.overrides if key_of(override) not in RATES)
        # A row without overrides has no twin.
        twins.setdefault(scheme or row.name, []).append(row)
    counted = []
    for group in twins.values():
        counted.append(max(group, key=lambda row: precedence(row.position_lr, row.conv_lr)))
    result = {}
    units = _units(counted, measure)
    for percent in list(units)[:-1]:
        then = units[percent]
        last = units[max(units)]
        names = [name for name in then if name in last]
        if len(names) >= FEWEST:
            early, late = (
                np.array([fmean(of_time[name].values()) for name in names])
                for of_time in (then, last)
            )
            result[percent] = _agreement(early, late)
    return result


def _units(rows: Sequence[Row], measure: str) -> dict[int, dict[str, dict[int, float]]]:
    """Per cent of the steps → row → pre-training seed → nats, higher is better."""
    scales: dict[int, Scale] = {}
    for row in rows:
        for percent, columns in row.snapshots.items():
            values = [value for name in columns for value in column_values(name, columns[name])]
            scales.setdefault(percent, Scale({}, "", "")).add({row.name: values})
    units = {percent: scales[percent].by_seed([measure]) for percent in sorted(scales)}
    return {percent: of_rows for percent, of_rows in units.items() if of_rows}


def _agreement(then: np.ndarray, last: np.ndarray) -> Agreement:
    # Rows are drawn and not seeds: the question is whether another choice of schemes would be
    # ranked early as well.
    drawn = np.random.default_rng(SEED).integers(len(then), size=(RESAMPLES, len(then)))
    several = [places for places in drawn if len({*places}) > 2]  # ρ of two different rows is ±1
    low, high = np.quantile(
        [_rho(then[places], last[places]) for places in several], [ALPHA / 2, 1 - ALPHA / 2]
    )
    return Agreement(_rho(then, last), (float(low), float(high)), len(then))


def _rho(first: np.ndarray, second: np.ndarray) -> float:
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata([first, second], axis=1))[0, 1])


def _figure(path: Path, courses: Courses, ranks: Mapping[int, Agreement], measure: str) -> None:
    figure, panels = style.grid(len(courses) + bool(ranks), 3, 4.2, 3.2)
    times: set[int] = set()
    for axes, (id, (bound, pairs)) in zip(panels, courses.items(), strict=False):
        for place, (pair, course) in enumerate(pairs.items()):
            times |= course.keys()
            look = style.look(place, 1.5)
            gains = course.values()
            axes.plot(
                [*course], [gain.value for gain in gains], marker=".", label=str(pair), **look
            )
            style.band(axes, course, [(gain.low, gain.high) for gain in gains], look["color"])
        axes.axhline(0, color="0.4", linewidth=0.8)
        axes.axhline(bound, color="0.4", linewidth=0.8, linestyle="--")
        axes.set_title(id, fontsize=9)
        axes.legend(fontsize=7, frameon=False)
        axes.set_ylabel("nats", fontsize=8)
    if ranks:
        axes, rhos = panels[-1], [agreement.rho for agreement in ranks.values()]
        axes.plot([*ranks], rhos, marker=".", color="black")
        style.band(axes, ranks, [agreement.interval for agreement in ranks.values()], "black")
        axes.set_ylim(-1.05, 1.05)
        axes.set_title("order of the rows against the last one", fontsize=9)
        axes.set_ylabel("Spearman's ρ", fontsize=8)
    for axes in panels:
        style.logarithmic(axes, times)
        axes.set_xlabel("per cent of the steps", fontsize=8)
        axes.grid(alpha=0.3)
    figure.suptitle(
        f"Differences in {MEASURES[measure]}, pointwise 95 % intervals over pre-trainings; dashed: "
        "bound",
        fontsize=9,
    )
    style.save(figure, path)
