"""The values of a row's runs → its columns. What is missing is None, never zero; a mean comes with its spread and its count."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from relpos.analysis.resampling import crossed_interval, multi_bootstrap
from relpos.measures.measure import NATS, Figure, measured_columns
from relpos.results.scale import MEAN, named, seeds
from relpos.results.statistics import Difference, Interval, interval
from relpos.results.values import Value, answers, by, means_by
from relpos.tables.table import Column
from relpos.trust import find

FEWEST = 5
"""The fewest pre-trainings whose measured figures are bootstrapped. Over fewer a bootstrap is too narrow: they get a t-interval."""
RESAMPLES = 500


def column(values: Sequence[Value], states: Sequence[str], several: bool, metric: str) -> Column:
    """A column of a row, of runs in these states and the values of those that are finished: of a task one for each fine-tuning, of
    a measure one for each pre-training. Several pre-trainings of a row are the units.
    """
    made = summary([each.value for each in values], [each.pretrain_seed for each in values] if several else None)
    figures = [each.figure for each in values if each.figure is not None]
    n_failed = states.count("failed")
    # Of the first run: all runs of a column have the same task or pairs, and so the same examples.
    majority = values[0].majority if values else None
    examples = figures[0].n if figures else values[0].examples if values else None
    constant = majority if majority is not None and not figures else -np.inf
    return replace(
        made,
        seeds=[seeds(each) for each in values],
        best=None if metric == NATS else made.best,  # more is not better
        interval=_of_figures(figures, made, values[0].column) if figures else interval_of_answers(values) or made.interval,
        n_failed=n_failed,
        n_missing=len(states) - len(values) - n_failed,
        # Not `==`: × 100 and a mean of two metrics leave a rounding error.
        n_collapsed=sum(each.value <= constant + 1e-9 for each in values),
        majority=majority,
        examples=examples,
        metric=metric,
    )


def summary(values: Sequence[float], pretrainings: Sequence[Hashable] | None = None) -> Column:
    """Mean, its standard error s/√n and bootstrap interval (none for a single value), best and median of some scores.

    Args:
        values: of fine-tunings.
        pretrainings: for each value, the pre-training that it started from, if there are several. Fine-tunings of one pre-training
            are not independent of each other: error and interval are then those of the pre-trainings' means.

    >>> column = summary([70.0, 71.0, 75.0])
    >>> column.mean, column.best, column.median
    (72.0, 75.0, 71.0)
    >>> summary([70.0, 71.0], pretrainings=[0, 0]).sem is None  # one pre-training has no spread
    True
    """
    units = list(means_by(pretrainings, values).values()) if pretrainings is not None else list(values)
    if not values:
        return Column()
    return Column(
        values=list(values),
        mean=float(np.mean(values)),
        sem=float(np.std(units, ddof=1) / np.sqrt(len(units))) if len(units) > 1 else None,
        best=max(values),
        median=float(np.median(values)),
        interval=interval(units),
    )


def interval_of_answers(values: Sequence[Value]) -> Interval | None:
    """95 % Multi-Bootstrap interval of the mean score × 100, over pre-trainings and dev examples at once.

    A pre-training counts with the mean over its fine-tunings. None if there are fewer than two pre-trainings, if a run has not
    kept its answers on the dev set, as older runs have not, or if the metric judges groups.
    """
    # Fine-tunings of one pre-training share its luck: seeds are drawn by pre-training.
    groups = by(values, "pretrain_seed")
    if len(groups) < 2 or not all(each.answers for each in values):
        return None
    dev_sets = [[answers(each.answers) for each in group if each.answers] for group in groups.values()]
    shapes = {dev_set.shape for group in dev_sets for dev_set in group}
    # Dev sets of several sizes are those of several versions of the data; of groups, a resampling would have to draw whole ones.
    if len(shapes) > 1 or any(width > 2 for _, width in shapes):
        return None
    # An array needs as many fine-tunings of each pre-training: those beyond the fewest are left out.
    fewest = min(map(len, dev_sets))
    metric = find(values[0].metric, "metric", "task.metric")

    def mean(drawn: NDArray[np.float64]) -> float:
        """Mean score of `fewest` fine-tunings; `drawn` is (examples, fine-tunings, 2)."""
        return 100 * sum(metric(drawn[:, tuning, 0], drawn[:, tuning, 1]) for tuning in range(fewest)) / fewest

    # (pre-trainings, examples, fine-tunings, 2)
    return multi_bootstrap(np.stack([np.stack(group[:fewest], 1) for group in dev_sets]), RESAMPLES, mean)


def _of_figures(figures: Sequence[Figure], made: Column, name: str) -> Interval | None:
    """The 95 % interval of a measured column: of one network, over its examples or pairs; of a few networks, by the t-distribution
    over them, because a bootstrap of a few is too narrow; of `FEWEST` or more, by bootstrap over networks and examples.

    Networks that agree to the last digit show no spread: they have the interval of the first one.
    """
    # A spread of zero would make an interval without width, as if one network were proof.
    if made.mean is None or not made.sem:
        return figures[0].interval
    if len(figures) >= FEWEST:
        parts = [figure.parts for figure in figures if figure.parts is not None]
        if not parts:
            return made.interval
        # (networks, examples) of numerators, then of denominators.
        both = np.stack(parts, 1)
        low, high = crossed_interval(both[0], both[1], figures[0].groups or None)
    else:
        around = Difference(made.mean, made.sem, freedom=len(figures) - 1, n=len(figures))
        low, high = around.low, around.high
    bounds = measured_columns()[name][1].bounds
    # A t-interval knows no bounds: an accuracy near 100 would get more.
    return (low, high) if bounds is None else (max(low, bounds[0]), min(high, bounds[1]))


def mean_if_all(values: Sequence[float | None]) -> float | None:
    """The mean; None if a value is missing, or if there are no values.

    >>> mean_if_all([1.0, 2.0]), mean_if_all([1.0, None])
    (1.5, None)
    """
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def mean_column(columns: Mapping[str, Column], several: bool) -> Column:
    """The mean of GLUE's columns, seed by seed; a seed that lacks a column counts as missing.

    `best` is the mean of the columns' bests, because a submission is made of the best run of each task; `median` likewise.
    """
    names = named(MEAN, columns)
    if not names:
        return Column()
    parts = [columns[name] for name in names]
    by_seed = [part.by_seed for part in parts]
    # A mean over fewer columns would be high or low by which of them are missing.
    whole = [seed for seed in parts[0].seeds if all(seed in values for values in by_seed)]
    means = [float(np.mean([values[seed] for values in by_seed])) for seed in whole]
    mean = summary(means, [pretraining for pretraining, _ in whole] if several else None)
    # Of the column with most runs: one that was cut short must not hide that seeds are missing.
    planned = max(len(part.values) + part.n_failed + part.n_missing for part in parts)
    return replace(
        mean,
        seeds=whole,
        of=names,
        best=mean_if_all([part.best for part in parts]),
        median=mean_if_all([part.median for part in parts]),
        n_missing=planned - len(mean.values),
    )
