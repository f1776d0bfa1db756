"""The interval of a column over pre-training seeds and dev examples at once, where there are several pre-trainings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from relpos.analysis.resampling import multi_bootstrap
from relpos.errors import RelposError, one_line
from relpos.files import check_recorded, read_text
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


def halves(path: Path, metric: str) -> tuple[float, float]:
    """The score × 100 on the even and on the odd examples of a dev set.

    Args:
        path: of the answers.
        metric: dotted name of the function that scores them.
    """
    from relpos.train.metrics import applied

    columns = answers(path).T
    numbers = columns[2] if len(columns) > 2 else np.arange(columns.shape[1])  # groups stay whole
    even, odd = (100 * applied(metric, "task.metric", *columns[:, numbers % 2 == half]) for half in (0, 1))
    return even, odd


def answers(path: Path) -> NDArray[np.float64]:
    """(examples, 2 or 3): predictions and targets of a dev set, as fine-tuning wrote them, and the groups where there are some.

    Raises:
        RelposError: the file is damaged.
    """
    check_recorded(path)
    try:
        table: NDArray[np.float64] = np.loadtxt(read_text(path).splitlines(), delimiter="\t", skiprows=1, ndmin=2)
    except ValueError as error:  # no number, or a line that was cut short
        raise RelposError(f"{path}: damaged: {one_line(error)}") from error
    if not table.size:
        raise RelposError(f"{path}: damaged: it has no answers")
    return table
