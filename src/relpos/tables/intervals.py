"""The interval of a column over pre-training seeds and dev examples at once, where there are several pre-trainings."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relpos.tables.plan import Tuning
from relpos.tables.statistics import Interval, multi_bootstrap

RESAMPLES = 500


def interval(tunings: list[Tuning], column: str) -> Interval | None:
    """95 % Multi-Bootstrap interval of the mean score × 100.

    A pre-training counts with the mean over its fine-tunings. None with fewer than two of them, and where a run has not kept what
    it answered on the dev set (older runs).
    """
    groups: dict[int, list[NDArray[np.float64]]] = {}
    for tuning in tunings:
        path = tuning.run.path / "dev" / f"{column}.tsv"
        if not path.is_file():
            return None
        groups.setdefault(tuning.pretrain_seed, []).append(answers(path))
    fewest = min(map(len, groups.values()), default=0)
    if len(groups) < 2 or len({len(one) for group in groups.values() for one in group}) > 1:
        return None
    scores = np.stack([np.stack(group[:fewest], 1) for group in groups.values()])  # (seeds, examples, fine-tunings, 2)
    module, _, name = tunings[0].run.config["task"]["metric"].rpartition(".")
    metric: Any = getattr(import_module(module), name)

    def mean(part: NDArray[np.float64]) -> float:
        return 100 * sum(metric(part[:, one, 0], part[:, one, 1]) for one in range(fewest)) / fewest

    return multi_bootstrap(scores, RESAMPLES, mean)


def answers(path: Path) -> NDArray[np.float64]:
    """(examples, 2): predictions and targets of a dev set, as fine-tuning wrote them."""
    found: NDArray[np.float64] = np.loadtxt(path, delimiter="\t", skiprows=1, ndmin=2)
    return found
