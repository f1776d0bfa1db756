"""What it would take to decide an undecided claim."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from relpos.claims.scales import Scale
from relpos.tables.statistics import ALPHA, POWER, Difference

MOST = 1_000
"""Pre-training seeds beyond which a difference is called too small to be found."""


def to_decide(scale: Scale, tested: Sequence[Difference], against: float = 0.0) -> str:
    """Seeds, and hours of the machines that ran these rows, which would find differences as large as these with probability 0.8.

    Args:
        scale: its pre-trainings say how long one takes.
        tested: the differences that a claim needs.
        against: what they have to differ from.
    """
    seeds = max((seeds_needed(each, against) for each in tested), default=MOST)
    if seeds >= MOST:
        return "the differences are too small to be found at this scale"
    hours = seeds_hours(scale, seeds)
    return f"about {seeds} pre-training seeds of each row" + (f", {hours:.2g} device-hours a row" if hours else "")


def seeds_hours(scale: Scale, seeds: int) -> float:
    """Hours that so many pre-trainings of one row take with their fine-tunings, on the machines that have run this scale."""
    pretrainings = sum(map(len, scale.folders.values()))
    return seeds * scale.seconds / pretrainings / 3600 if pretrainings else 0.0


def seeds_needed(tested: Difference, against: float = 0.0) -> int:
    """Pre-trainings of each row with which a two-sided t-test at 0.05 finds this difference with probability 0.8; `MOST` at most.

    >>> seeds_needed(Difference(1.0, error=0.5, freedom=8.0, n=5)), seeds_needed(Difference(0.0, error=0.5, freedom=8.0, n=5))
    (11, 1000)
    """
    from statsmodels.stats.power import TTestIndPower

    spread = tested.error * (tested.n / 2) ** 0.5
    effect = abs(tested.value - against) / spread if spread else 0.0
    if effect < (7.85 * 2 / MOST) ** 0.5:  # 7.85 = (1.96 + 0.84)²: so large an effect takes MOST seeds
        return MOST
    if effect > 5:
        return 2
    return ceil(float(np.squeeze(TTestIndPower().solve_power(effect_size=effect, alpha=ALPHA, power=POWER))))
