"""Relative error reductions without choosing on the examples that are scored: S is chosen on one half of the dev set, scored on the
other."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from relpos.claims.comparisons import decided, mean_without_loss
from relpos.claims.rule import Test, of_column, rule, with_scores
from relpos.claims.verdict import NOT_RUN, Evidence, Verdict
from relpos.results.answers import Halves, best_on_halves
from relpos.results.scale import MEAN, Scale, Seed, by_pretraining, named, seeds
from relpos.results.statistics import Difference, paired

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
    columns = {name: _answered(scale, test.rows, name) for name in scale.telling(named(MEAN, test.columns), *test.rows)}
    columns = {name: by_seed for name, by_seed in columns.items() if by_seed}
    if not columns:
        return Verdict(NOT_RUN, "needs fine-tunings that kept their answers on the dev sets")
    base = test.contrasts[0].second
    # On one half, and scored on the other: the best of several on the same examples gains by choice alone.
    means = {
        row: [fmean(fmean(rows[row][half] for rows in by_seed.values()) for by_seed in columns.values()) for half in (0, 1)]
        for row, _ in test.contrasts
    }
    chosen = best_on_halves({row: (even, odd) for row, (even, odd) in means.items()})
    parts = {
        name: {
            seed: [(rows[row][1 - half] - rows[base][1 - half], 100 - rows[base][1 - half]) for half, row in enumerate(chosen)]
            for seed, rows in by_seed.items()
        }
        for name, by_seed in columns.items()
    }
    # Seeds that have all columns, so that each counts with the same ones.
    shared = sorted(set.intersection(*map(set, parts.values())))
    together = _by_pretraining({seed: [part for of_column in parts.values() for part in of_column[seed]] for seed in shared})
    reductions = {name: _by_pretraining(by_seed) for name, by_seed in parts.items()}
    said = ", ".join(f"{name} {fmean(units):+.1f} %" for name, units in reductions.items())
    tested, *by_column = (paired(units, [0.0] * len(units)) for units in (together, *reductions.values()))
    if tested is not None:
        said += f"; together {tested.value:+.1f} % [{tested.low:+.1f}, {tested.high:+.1f}] over {tested.n} {scale.units}"

    def judge(known: Sequence[Difference]) -> Evidence:
        both_sides = mean_without_loss(known[0], [each for each in by_column if each])
        # Halved: the claim has a direction, and `mean_without_loss` is two-sided.
        return Evidence(both_sides.holds / 2, both_sides.fails)

    return decided(scale, [said], [tested], judge, "two pre-training seeds or more of each row")


def _answered(scale: Scale, rows: Sequence[str], column: str) -> dict[Seed, dict[str, Halves]]:
    """Seeds → row → the scores on both halves, for the seeds for which all of these rows have kept their answers."""
    kept = [{seeds(each): each for each in scale.values[row][column] if each.answers} for row in rows]
    shared = [seed for seed in kept[0] if all(seed in of_row for of_row in kept)]
    return {seed: {row: of_row[seed].halves() for row, of_row in zip(rows, kept, strict=True)} for seed in shared}


def _by_pretraining(parts: dict[Seed, list[Errors]]) -> list[float]:
    """Of each pre-training the per cent of the errors that are gone, over both halves and several columns."""
    # A ratio of sums and not a mean of ratios: a column with few errors left would rule the mean by chance.
    errors = {seed: sum(errors for _, errors in some) for seed, some in parts.items()}
    gains = {seed: sum(gain for gain, _ in some) for seed, some in parts.items()}
    return list(by_pretraining({seed: 100 * gains[seed] / errors[seed] if errors[seed] else 0.0 for seed in parts}).values())
