"""Relative error reductions without choosing on the examples that are scored: S is chosen on one half of the dev set, scored on the
other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from relpos.claims.comparisons import decided, mean_without_loss
from relpos.claims.rule import Test, of_column, rule, with_scores
from relpos.claims.verdict import NOT_RUN, Evidence, Verdict
from relpos.results.scale import MEAN, Scale, Seed, by_pretraining, named, seeds
from relpos.results.statistics import Difference, paired

Halves = dict[str, dict[str, dict[Seed, tuple[float, float]]]]
"""Row → column → seeds → score on even and on odd examples, × 100."""
Errors = tuple[float, float]
"""Points that a row gains, and errors of the base."""


@rule("the best of {first} on half of the dev set makes fewer errors than {second} on the other half", of_column, with_scores)
def error_reduction(test: Test, scale: Scale) -> Verdict:
    """100·(score − base)/(100 − base) of the row that is best on half of the examples, scored on the other half.

    The contrasts are the rows to choose from, each with the base. One is chosen for all columns, by the mean over columns and
    fine-tunings: on even examples to be scored on odd ones, then the other way round; the mean of both counts. Units are
    pre-trainings, each the mean over its fine-tunings. Holds: the reduction of the errors of all columns together is above zero
    (one-sided, 0.05), and that of no column clearly below, by Holm's correction. Fails: that of all columns or of one is below.
    """
    names = scale.telling(named(MEAN, test.columns), *test.rows)
    base = test.contrasts[0].second
    halves = halves_of(scale, test.rows, names)
    if not halves[base]:
        return Verdict(NOT_RUN, "needs fine-tunings that kept their answers on the dev sets")
    # On one half, and scored on the other: the best of several on the same examples gains by choice alone.
    chosen = [max((row for row, _ in test.contrasts), key=partial(_mean_of_half, halves, half)) for half in (0, 1)]
    reductions: dict[str, dict[Seed, list[Errors]]] = {
        column: {
            seed: [(halves[row][column][seed][1 - half] - both[1 - half], 100 - both[1 - half]) for half, row in enumerate(chosen)]
            for seed, both in seeds_of_base.items()
        }
        for column, seeds_of_base in halves[base].items()
    }
    by_column = {
        column: by_pretraining({seed: _percent(each) for seed, each in of_seeds.items()}) for column, of_seeds in reductions.items()
    }
    said = ", ".join(f"{column} {float(np.mean(list(each.values()))):+.1f} %" for column, each in by_column.items())
    # Seeds that have all columns, so that each counts with the same ones.
    both = sorted(set.intersection(*map(set, reductions.values())))
    together = by_pretraining(
        {seed: _percent([one for of_seeds in reductions.values() for one in of_seeds[seed]]) for seed in both}
    )
    tested, *of_columns = (paired(list(each.values()), [0.0] * len(each)) for each in (together, *by_column.values()))
    if tested is not None:
        said += f"; together {tested.value:+.1f} % [{tested.low:+.1f}, {tested.high:+.1f}] over {tested.n} {scale.units}"

    def judge(known: Sequence[Difference]) -> Evidence:
        both_sides = mean_without_loss(known[0], [each for each in of_columns if each])
        # Halved: the claim has a direction, and `mean_without_loss` is two-sided.
        return Evidence(both_sides.holds / 2, both_sides.fails)

    return decided(scale, [said], [tested], judge, "two pre-training seeds or more of each row")


def halves_of(scale: Scale, rows: Sequence[str], names: Iterable[str]) -> Halves:
    """The scores on both halves, for the columns and seeds for which all of these rows have kept their answers."""
    found: Halves = {row: {} for row in rows}
    for column in names:
        files = {row: {seeds(each): each for each in scale.values[row][column] if each.answers} for row in rows}
        common = [seed for seed in files[rows[0]] if all(seed in answered for answered in files.values())]
        for row in rows if common else ():
            found[row][column] = {seed: files[row][seed].halves() for seed in common}
    return found


def _mean_of_half(halves: Halves, half: int, row: str) -> float:
    """Mean over columns of a row's mean score on one half of the examples."""
    return float(np.mean([np.mean([both[half] for both in of_seeds.values()]) for of_seeds in halves[row].values()]))


def _percent(parts: Sequence[Errors]) -> float:
    """Per cent of the errors that are gone, over both halves and several columns."""
    # A ratio of sums and not a mean of ratios: a column with few errors left would rule the mean by chance.
    errors = sum(errors for _, errors in parts)
    return 100 * sum(gain for gain, _ in parts) / errors if errors else 0.0
