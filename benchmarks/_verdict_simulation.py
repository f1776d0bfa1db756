"""Simulates the verdicts on printed numbers if our networks were trained exactly as the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from _claim_simulation import TUNINGS, worlds

from relpos.results import contrast
from relpos.results.values import GLUE
from relpos.tables.comparison import ABOVE, BELOW, REPRODUCED, Printed, difference, verdict


@dataclass(frozen=True)
class CellPower:
    """Shares of verdicts over all cells of a paper's dev table, the mean of the columns included.

    Args:
        different: share called above or below if ours are trained as the paper's were.
        reproduced: share called reproduced in the same case.
        missed: share called reproduced if the printed numbers are off by the bound.
        found: share called above if they are off by twice the bound.
    """

    different: float
    reproduced: float
    missed: float
    found: float


def cells(paper: str, seeds: int, draws: int, between: float = 1.0) -> CellPower:
    """Simulates the verdicts of `relpos.tables.comparison` with the paper's own numbers as the truth.

    The paper's number is also drawn: it comes from one pre-training, and is as far from the truth as one of ours.

    Args:
        paper: whose dev table is simulated.
        seeds: pre-trainings of each row.
        draws: how often the table is drawn.
        between: standard deviation between pre-trainings over that between fine-tunings.
    """
    world = worlds(paper)[0]
    size = next(iter(world.means))
    means, deviations = world.means[size], world.deviations[size]
    chance = np.random.default_rng(seeds)
    verdicts: dict[float, list[str]] = {0.0: [], 1.0: [], 2.0: []}
    for _ in range(draws):
        ours = {row: _draw(chance, means[row], deviations[row], between, TUNINGS, seeds) for row in means}
        papers = {row: _draw(chance, means[row], deviations[row], between, 10, 1) for row in means}
        for column in [*GLUE, "glue"]:
            units = {row: dict(enumerate(drawn[column])) for row, drawn in ours.items() if column in drawn}
            for row in units:
                sem = _sem(deviations[row], column) if paper == "chang2021" else None
                spread = contrast.spread(units, row)
                bound = Printed(papers[row][column][0], sem).bound(spread)
                for off, said in verdicts.items():
                    printed = Printed(papers[row][column][0] - off * bound, sem)
                    said.append(verdict(seeds, difference(units[row], printed, spread), bound))

    def share(off: float, *words: str) -> float:
        return sum(verdicts[off].count(word) for word in words) / len(verdicts[off])

    return CellPower(share(0.0, ABOVE, BELOW), share(0.0, REPRODUCED), share(1.0, REPRODUCED), share(2.0, ABOVE))


def _draw(
    chance: np.random.Generator,
    means: Mapping[str, float],
    deviations: Mapping[str, float],
    between: float,
    tunings: int,
    seeds: int,
) -> dict[str, np.ndarray]:
    """Column → (seeds,) scores of pre-trainings; `glue` is the mean of the columns."""
    spreads = {column: deviations[column] * (between**2 + 1 / tunings) ** 0.5 for column in means}
    columns = {column: chance.normal(mean, spreads[column], seeds) for column, mean in means.items()}
    return columns | {"glue": np.mean(list(columns.values()), axis=0)}


def _sem(deviations: Mapping[str, float], column: str) -> float:
    """The standard error over ten fine-tunings, as a paper prints it."""
    errors = {name: deviation / 10**0.5 for name, deviation in deviations.items()}
    return errors[column] if column in errors else float(np.hypot.reduce(list(errors.values()))) / len(errors)
