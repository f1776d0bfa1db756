"""At which point of the training does each difference between rows appear, and does their early order foretell the last one?

Computed from the snapshots that a table has measured (`order_snapshots`): the differences that claims are about, at each percentage
of the steps, with a 95 % interval over pre-trainings from the pooled errors of all rows at that time. The intervals are pointwise:
each for its own time, not a band for the whole curve. Beside them stands how far the order of the rows agrees with the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from relpos import style
from relpos.config.conf import key_of
from relpos.files import write_json
from relpos.results.contrast import Units, difference
from relpos.results.gain import MEASURES, Contrast
from relpos.results.scale import NAMED, by_pretraining
from relpos.results.statistics import ALPHA, SEED, Difference, Interval
from relpos.results.values import precedence
from relpos.tables.table import Row

NAME = "claims_over_training"
"""Name of the figure's file and of the file with its numbers."""
FEWEST = 4
"""The fewest rows whose order is compared."""
RESAMPLES = 2_000
RATES = ("recipe.position_lr", "recipe.conv_lr")
"""Keys in which rows may differ that claims read as one."""


@dataclass(frozen=True)
class Agreement:
    """Spearman's ρ between the order of so many rows at some time and at the end; 95 % interval by bootstrap over rows."""

    rho: float
    interval: Interval
    rows: int


Courses = Mapping[str, tuple[float, Mapping[Contrast, Mapping[int, Difference]]]]
"""Claim → the bound in nats below which a difference counts as none, and pair of rows → per cent of the steps → their difference in
nats, higher being better."""


def draw(folder: Path, rows: Sequence[Row], claims: Mapping[str, tuple[float, Sequence[Contrast]]], measure: str) -> None:
    """Writes the figure and its numbers, `claims_over_training.png` and `.json`, into the folder of a table whose rows are named as
    in `experiments/claims/rows.yaml`; nothing where no snapshot was measured. `claims` as of `relpos.claims.claim.compared`.
    """
    courses, ranks = courses_of(rows, claims, measure), agreements(rows, measure)
    if courses:
        write_json(folder / f"{NAME}.json", {"measure": measure} | _plain(courses, ranks))
        _figure(folder / f"{NAME}.png", courses, ranks, measure)


def courses_of(rows: Sequence[Row], claims: Mapping[str, tuple[float, Sequence[Contrast]]], measure: str) -> Courses:
    """The claims of which some pair of rows has snapshots that can be compared."""
    units = _units(rows, measure)
    # All rows of a time go along: their spread then says what the error is, and early it is another than late.
    tested = {
        pair: {at: found for at, by_row in units.items() if {*pair} <= by_row.keys() and (found := difference(by_row, *pair))}
        for _, pairs in claims.values()
        for pair in pairs
    }
    courses = {id: (bound, {pair: tested[pair] for pair in pairs if tested[pair]}) for id, (bound, pairs) in claims.items()}
    return {id: course for id, course in courses.items() if course[1]}


def agreements(rows: Sequence[Row], measure: str) -> dict[int, Agreement]:
    """Per cent of the steps → how far the order of the rows agrees with the last one; empty for too few rows.

    Of rows that differ in nothing but their rates one counts, that which claims are read from: twins are alike at any time."""
    twins: dict[object, list[Row]] = {}
    for row in rows:
        # One without overrides is like no other.
        twins.setdefault(tuple(each for each in row.overrides if key_of(each) not in RATES) or row.name, []).append(row)
    rows = [max(some, key=lambda row: precedence(row.position_lr, row.conv_lr)) for some in twins.values()]
    means = {at: {row: fmean(units.values()) for row, units in by_row.items()} for at, by_row in _units(rows, measure).items()}
    # The end is what the others are compared with.
    last = means.pop(max(means)) if means else {}
    shared = {at: [row for row in by_row if row in last] for at, by_row in means.items()}
    return {
        at: _agreement(np.array([means[at][row] for row in names]), np.array([last[row] for row in names]))
        for at, names in shared.items()
        if len(names) >= FEWEST
    }


def _units(rows: Sequence[Row], measure: str) -> dict[int, dict[str, Units]]:
    """Per cent of the steps → row → pre-training seed → nats, higher being better."""
    [(name, sign)] = [(column, sign) for column, (known, sign) in NAMED.items() if known == measure]
    found: dict[int, dict[str, Units]] = {}
    for row in rows:
        for percent, columns in row.snapshots.items():
            if name in columns and columns[name].values:
                units = by_pretraining({seed: sign * value for seed, value in columns[name].by_seed.items()})
                found.setdefault(percent, {})[row.name] = units
    return dict(sorted(found.items()))


def _agreement(then: np.ndarray, last: np.ndarray) -> Agreement:
    # Over rows and not over seeds: the question is whether another choice of schemes would be ranked early as well.
    drawn = np.random.default_rng(SEED).integers(len(then), size=(RESAMPLES, len(then)))
    several = [places for places in drawn if len({*places}) > 2]  # ρ of two different rows can only be ±1
    low, high = np.quantile([_rho(then[places], last[places]) for places in several], [ALPHA / 2, 1 - ALPHA / 2])
    return Agreement(_rho(then, last), (float(low), float(high)), len(then))


def _rho(first: np.ndarray, second: np.ndarray) -> float:
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def _plain(courses: Courses, ranks: Mapping[int, Agreement]) -> dict[str, Any]:
    return {
        "claims": {
            id: {
                str(pair): {
                    str(at): {"value": each.value, "interval": [each.low, each.high], "freedom": each.freedom, "seeds": each.n}
                    for at, each in tested.items()
                }
                for pair, tested in differences.items()
            }
            for id, (_, differences) in courses.items()
        },
        "ranks": {str(at): asdict(each) for at, each in ranks.items()},
    }


def _figure(path: Path, courses: Courses, ranks: Mapping[int, Agreement], measure: str) -> None:
    figure, panels = style.grid(len(courses) + bool(ranks), 3, 4.2, 3.2)
    for axes, (id, (bound, differences)) in zip(panels, courses.items(), strict=False):
        for place, (pair, tested) in enumerate(differences.items()):
            look = style.look(place, 1.5)
            axes.plot(list(tested), [each.value for each in tested.values()], marker=".", label=str(pair), **look)
            style.band(axes, tested, [(each.low, each.high) for each in tested.values()], look["color"])
        axes.axhline(0, color="0.4", linewidth=0.8)
        axes.axhline(bound, color="0.4", linewidth=0.8, linestyle="--")
        axes.set_title(id, fontsize=9)
        axes.legend(fontsize=7, frameon=False)
        axes.set_ylabel("nats", fontsize=8)
    if ranks:
        axes = panels[len(courses)]
        axes.plot(list(ranks), [each.rho for each in ranks.values()], marker=".", color="black")
        style.band(axes, ranks, [each.interval for each in ranks.values()], "black")
        axes.set_ylim(-1.05, 1.05)
        axes.set_title("order of the rows against the last one", fontsize=9)
        axes.set_ylabel("Spearman's ρ", fontsize=8)
    times = {at for _, differences in courses.values() for tested in differences.values() for at in tested}
    for axes in panels:
        style.logarithmic(axes, times)
        axes.set_xlabel("per cent of the steps", fontsize=8)
        axes.grid(alpha=0.3)
    figure.suptitle(f"Differences in {MEASURES[measure]}, pointwise 95 % intervals over pre-trainings; dashed: bound", fontsize=9)
    style.save(figure, path)
