"""How the rows of a table stand at each share of the steps, and whether their early order foretells the last one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relpos.results.scale import by_pretraining
from relpos.results.statistics import ALPHA, SEED
from relpos.results.values import GAP, LOSS
from relpos.tables.row import Row

FEWEST = 4
"""The fewest rows whose order is compared."""
RESAMPLES = 2_000


@dataclass(frozen=True)
class Agreement:
    """Spearman's ρ between the order of so many rows at some share and at the end; 95 % interval by bootstrap over rows."""

    rho: float
    low: float
    high: float
    rows: int


def units(rows: Sequence[Row], measure: str) -> dict[int, dict[str, dict[int, float]]]:
    """Share → row → pre-training seed → nats of held-out loss (`loss`) or shuffle gap (`order`), higher being better."""
    name, sign = (LOSS, -1.0) if measure == "loss" else (GAP, 1.0)
    shares = sorted({share for row in rows for share in row.snapshots})

    def of_share(share: int) -> dict[str, dict[int, float]]:
        columns = {row.name: column for row in rows if (column := row.snapshots.get(share, {}).get(name))}
        return {
            row: by_pretraining({seed: sign * value for seed, value in column.by_seed.items()}) for row, column in columns.items()
        }

    by_share = {share: of_share(share) for share in shares}
    return {share: by_row for share, by_row in by_share.items() if any(by_row.values())}


def agreements(rows: Sequence[Row], measure: str) -> dict[int, Agreement]:
    """Share → how far the order of the rows agrees with the last one; empty for too few rows."""
    means = {
        share: {row: float(np.mean(list(of_row.values()))) for row, of_row in by_row.items() if of_row}
        for share, by_row in units(rows, measure).items()
    }
    if not means:
        return {}
    # The end is what the others are compared with.
    last = means.pop(max(means))
    result = {}
    for share, by_row in means.items():
        shared = [row for row in by_row if row in last]
        if len(shared) >= FEWEST:
            result[share] = _agreement(np.array([by_row[row] for row in shared]), np.array([last[row] for row in shared]))
    return result


def _agreement(then: np.ndarray, last: np.ndarray) -> Agreement:
    # Over rows and not over seeds: the question is whether another choice of schemes would be ranked early as well.
    chance = np.random.default_rng(SEED)
    drawn = chance.integers(len(then), size=(RESAMPLES, len(then)))
    several = [places for places in drawn if len({*places}) > 2]  # ρ of two different rows can only be ±1
    low, high = np.quantile([_rho(then[places], last[places]) for places in several], [ALPHA / 2, 1 - ALPHA / 2])
    return Agreement(_rho(then, last), float(low), float(high), len(then))


def _rho(first: np.ndarray, second: np.ndarray) -> float:
    from scipy.stats import rankdata

    ranks = [rankdata(values) for values in (first, second)]
    return float(np.corrcoef(*ranks)[0, 1])
