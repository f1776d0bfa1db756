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
    """Spearman's ρ between the ranking of rows at some time and at the end, with a 95 % interval by
    bootstrap over rows."""

    rho: float
    interval: Interval
    rows: int


Courses = Mapping[str, tuple[float, Mapping[Contrast, Mapping[int, Difference]]]]
"""Claim → the bound in nats below which a difference counts as none, and pair of rows → per cent of
the steps → their difference in nats (higher is better)."""


def draw(
    folder: Path,
    rows: Sequence[Row],
    claims: Mapping[str, tuple[float, Sequence[Contrast]]],
    measure: str,
) -> None:
    """Writes the figure and its numbers, `claims_over_training.png` and `.json`; nothing where no
    snapshot was measured.

    Args:
        folder: of the table.
        rows: of the table, named as in `experiments/claims/rows.yaml`.
        claims: the result of `relpos.claims.claim.compared`.
        measure: `loss` or `order`.
    """
    courses, ranks = courses_of(rows, claims, measure), agreements(rows, measure)
    if courses:
        write_json(folder / f"{NAME}.json", {"measure": measure} | _plain(courses, ranks))
        _figure(folder / f"{NAME}.png", courses, ranks, measure)


def courses_of(
    rows: Sequence[Row], claims: Mapping[str, tuple[float, Sequence[Contrast]]], measure: str
) -> Courses:
    """The claims of which some pair of rows has snapshots that can be compared."""
    units = _units(rows, measure)
    courses: dict[str, tuple[float, dict[Contrast, dict[int, Difference]]]] = {}
    for id, (bound, pairs) in claims.items():
        tested = {pair: _course(pair, units) for pair in pairs}
        if any(tested.values()):
            courses[id] = bound, {pair: course for pair, course in tested.items() if course}
    return courses


def _course(pair: Contrast, units: Mapping[int, Mapping[str, Units]]) -> dict[int, Difference]:
    """Per cent of the steps → difference of two rows.

    Its error is estimated from all rows at that time, because early errors differ from late ones.
    """
    course = {}
    for percent, by_row in units.items():
        if {*pair} <= by_row.keys() and (tested := difference(by_row, *pair)):
            course[percent] = tested
    return course


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
    rows = [
        max(group, key=lambda row: precedence(row.position_lr, row.conv_lr))
        for group in twins.values()
    ]
    means: dict[int, dict[str, float]] = {}
    for percent, by_row in _units(rows, measure).items():
        means[percent] = {name: fmean(units.values()) for name, units in by_row.items()}
    if not means:
        return {}
    last = means.pop(max(means))
    result = {}
    for percent, then in means.items():
        names = [name for name in then if name in last]
        if len(names) >= FEWEST:
            early, late = (np.array([of_time[name] for name in names]) for of_time in (then, last))
            result[percent] = _agreement(early, late)
    return result


def _units(rows: Sequence[Row], measure: str) -> dict[int, dict[str, Units]]:
    """Per cent of the steps → row → pre-training seed → nats, higher is better."""
    name, sign = next(
        (column, sign) for column, (of_scale, sign) in NAMED.items() if of_scale == measure
    )
    by_percent: dict[int, dict[str, Units]] = {}
    for row in rows:
        for percent, columns in row.snapshots.items():
            if name in columns and columns[name].values:
                units = by_pretraining(
                    {seed: sign * value for seed, value in columns[name].by_seed.items()}
                )
                by_percent.setdefault(percent, {})[row.name] = units
    return dict(sorted(by_percent.items()))


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

    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def _plain(courses: Courses, ranks: Mapping[int, Agreement]) -> dict[str, Any]:
    claims: dict[str, dict[str, dict[str, Any]]] = {}
    for id, (_, differences) in courses.items():
        claims[id] = {str(pair): _plain_course(tested) for pair, tested in differences.items()}
    return {
        "claims": claims,
        "ranks": {str(percent): asdict(agreement) for percent, agreement in ranks.items()},
    }


def _plain_course(tested: Mapping[int, Difference]) -> dict[str, Any]:
    course = {}
    for percent, gain in tested.items():
        interval = [gain.low, gain.high]
        course[str(percent)] = {
            "value": gain.value,
            "interval": interval,
            "freedom": gain.freedom,
            "seeds": gain.n,
        }
    return course


def _figure(path: Path, courses: Courses, ranks: Mapping[int, Agreement], measure: str) -> None:
    figure, panels = style.grid(len(courses) + bool(ranks), 3, 4.2, 3.2)
    for axes, (id, (bound, differences)) in zip(panels, courses.items(), strict=False):
        for place, (pair, tested) in enumerate(differences.items()):
            look = style.look(place, 1.5)
            gains = list(tested.values())
            axes.plot(
                list(tested), [gain.value for gain in gains], marker=".", label=str(pair), **look
            )
            style.band(axes, tested, [(gain.low, gain.high) for gain in gains], look["color"])
        axes.axhline(0, color="0.4", linewidth=0.8)
        axes.axhline(bound, color="0.4", linewidth=0.8, linestyle="--")
        axes.set_title(id, fontsize=9)
        axes.legend(fontsize=7, frameon=False)
        axes.set_ylabel("nats", fontsize=8)
    if ranks:
        axes = panels[len(courses)]
        axes.plot(
            list(ranks), [agreement.rho for agreement in ranks.values()], marker=".", color="black"
        )
        style.band(axes, ranks, [agreement.interval for agreement in ranks.values()], "black")
        axes.set_ylim(-1.05, 1.05)
        axes.set_title("order of the rows against the last one", fontsize=9)
        axes.set_ylabel("Spearman's ρ", fontsize=8)
    times: set[int] = set()
    for _, differences in courses.values():
        times.update(*differences.values())
    for axes in panels:
        style.logarithmic(axes, times)
        axes.set_xlabel("per cent of the steps", fontsize=8)
        axes.grid(alpha=0.3)
    title = f"Differences in {MEASURES[measure]}, pointwise 95 % intervals over pre-trainings; dashed: bound"
    figure.suptitle(title, fontsize=9)
    style.save(figure, path)
