"""The interval of a column over pre-training seeds and dev examples at once, where there are several pre-trainings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from relpos.analysis.resampling import multi_bootstrap
from relpos.results.answers import answers
from relpos.results.statistics import Interval
from relpos.tables.plan import Tuning
from relpos.trust import find

RESAMPLES = 500


def interval(tunings: list[Tuning], column: str) -> Interval | None:
    """95 % Multi-Bootstrap interval of the mean score × 100.

    A pre-training counts with the mean over its fine-tunings. None if there are fewer than two pre-trainings, if a run has not
    kept its answers on the dev set, as older runs have not, or if the metric judges groups.
    """
    # Fine-tunings of one pre-training share its luck: seeds are drawn by pre-training.
    by_pretraining: dict[int, list[NDArray[np.float64]]] = {}
    for tuning in tunings:
        path = tuning.run.path / "dev" / f"{column}.tsv"
        if not path.is_file():
            return None
        by_pretraining.setdefault(tuning.pretrain_seed, []).append(answers(path))
        if by_pretraining[tuning.pretrain_seed][-1].shape[1] > 2:
            return None  # a resampling would have to draw whole groups
    fewest = min(map(len, by_pretraining.values()), default=0)
    sizes = {len(dev_set) for dev_sets in by_pretraining.values() for dev_set in dev_sets}
    # Dev sets of several sizes are those of several versions of the data, whose examples are not the same.
    if len(by_pretraining) < 2 or len(sizes) > 1:
        return None
    # An array needs as many fine-tunings of each pre-training: those beyond the fewest are left out.
    scores = np.stack([np.stack(dev_sets[:fewest], 1) for dev_sets in by_pretraining.values()])
    metric = find(tunings[0].run.config["task"]["metric"], "metric", "task.metric")

    def mean(drawn: NDArray[np.float64]) -> float:
        """Mean score of `fewest` fine-tunings; `drawn` is (examples, fine-tunings, 2)."""
        return 100 * sum(metric(drawn[:, tuning, 0], drawn[:, tuning, 1]) for tuning in range(fewest)) / fewest

    return multi_bootstrap(scores, RESAMPLES, mean)  # (pre-trainings, examples, fine-tunings, 2)
