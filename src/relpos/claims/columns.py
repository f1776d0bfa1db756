"""Rules that look at one pair of rows column by column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from relpos.claims.comparisons import SEVERAL_SEEDS, decided, in_nats, mean_without_loss
from relpos.claims.rule import SEVERAL, Requirements, Test, of_column, rule, with_scores
from relpos.claims.verdict import NOT_RUN, UNDECIDED, Evidence, Verdict, joined, sided
from relpos.results.contrast import difference
from relpos.results.gain import gain
from relpos.results.scale import MEAN, Scale, named
from relpos.results.statistics import ALPHA, SEED, Difference, combined
from relpos.results.values import GLUE

DRAWS = 20_000


def _over_columns(test: Test, scale: Scale, judge: Callable[[Difference, Sequence[Difference]], tuple[Evidence, str]]) -> Verdict:
    """Asks a judge what the mean of the columns and the columns themselves say, of those that tell the rows apart."""
    (pair,) = test.contrasts
    names = scale.telling(named(MEAN, test.columns), *test.rows)
    mean = gain(scale, pair, only=test.columns)
    if not names or mean is None:
        return Verdict(NOT_RUN, f"{pair.first} and {pair.second}: at the constant answer in every column")
    # Each column alone, since the mean may hide that one of them fell.
    gains = [each for column in names if (each := gain(scale, pair, column))]
    tested = [each.tested for each in gains if each.tested]
    up, down = (sum(each.p < ALPHA and sign * each.value > 0 for each in tested) for sign in (1, -1))
    figures = [f"{pair} above zero in {sum(each.value > 0 for each in gains)} of {len(gains)} columns"]
    if mean.tested is None or len(tested) < len(gains):
        return Verdict(UNDECIDED, joined([*figures, mean.said]), takes=SEVERAL_SEEDS)
    evidence, said = judge(mean.tested, tested)
    figures[0] += f" ({up} clearly above, {down} clearly below{said})"
    return decided(scale, [*figures, mean.said], [mean.tested], lambda _: evidence)


def signs_above(columns: Sequence[Difference], needed: int) -> Evidence:
    """The evidence that so many of these differences are truly above zero; `fails` is the share of the draws with so many."""
    chance = np.random.default_rng(SEED)
    drawn = [each.value + each.error * chance.standard_t(each.freedom, DRAWS) for each in columns]
    counts = np.sum([differences > 0 for differences in drawn], axis=0)
    # Posterior draws, not a test for each column: nine intervals above zero would ask for far more than a count of signs.
    share = float(np.mean(counts >= needed))
    return Evidence(1 - share, share)


@rule(
    "{contrasts} truly above zero in {at_least} of {of} columns, in 95 % of what the errors allow", of_column, with_scores, in_nats
)
def signs(test: Test, scale: Scale, *, at_least: int = 1, of: int = 9) -> Verdict:
    """The first row is above the second in `at_least` of `of` columns.

    If only some columns were run, the same share of them is asked for. The count is simulated: each column's true difference is
    drawn from the t-distribution that its pooled error gives. Holds: 95 % of the draws have so many columns above zero. Fails: 5 %
    or fewer. To ask for an interval above zero in each column would ask much more than a count does. Columns in which neither row
    is better than the constant answer tell nothing and are left out.
    """

    def judge(mean: Difference, columns: Sequence[Difference]) -> tuple[Evidence, str]:
        # Rounded up: of four columns, `5 of 9` asks for three.
        needed = -(-at_least * len(columns) // of)
        evidence = signs_above(columns, needed)
        return evidence, f"; {needed} or more in {evidence.fails:.0%} of the draws"

    return _over_columns(test, scale, judge)


@rule("{contrasts} above zero in the mean of the columns, and clearly below in none", of_column, with_scores, in_nats)
def gain_without_loss(test: Test, scale: Scale) -> Verdict:
    """The first row is above the second in the mean of the columns, and clearly below in none.

    Holds: the 95 % interval of the mean gain lies above zero, and no column's lies below, by Holm's correction. Fails: that of the
    mean or of a column lies below, by Holm's correction.
    """
    return _over_columns(test, scale, lambda mean, columns: (mean_without_loss(mean, columns), ""))


def _two_columns(test: Test) -> Requirements:
    return Requirements(SEVERAL, test.columns or GLUE, least=2)


@rule("{column} loses most of all columns from {first} to {second}", _two_columns, with_scores)
def suffers_most(test: Test, scale: Scale) -> Verdict:
    """From the first row to the second, `column` loses most, in points.

    Losses are estimated from few pre-trainings: true losses are drawn from t-distributions with the columns' pooled errors. Holds:
    `column` loses most in 95 % of the draws. Fails: in 5 % or fewer. The figures show the same for losses in standard deviations
    between pre-trainings, which are drawn too (χ²); this does not decide.
    """
    (pair,) = test.contrasts
    columns = scale.telling(named(MEAN, test.columns), *test.rows)
    if test.column not in columns or len(columns) < 2:
        there = ", ".join(columns) or "none"
        return Verdict(NOT_RUN, f"needs {test.column} and other columns better than the constant answer; there are {there}")
    gains = {column: gain(scale, pair, column) for column in columns}
    tested = {column: each.tested for column, each in gains.items() if each and each.tested}
    if len(tested) < len(columns):
        said = [each.said for each in gains.values() if each]
        return Verdict(UNDECIDED, joined(said), takes="two pre-training seeds or more of each column")
    chance = np.random.default_rng(SEED)
    in_points, in_deviations = zip(*(_drawn_losses(chance, each) for each in tested.values()), strict=True)
    place_of = columns.index(test.column)
    share, share_in_deviations = (float(np.mean(np.argmax(drawn, axis=0) == place_of)) for drawn in (in_points, in_deviations))
    losses = ", ".join(f"{column} {each.value:.1f}" for column, each in sorted(tested.items(), key=lambda item: -item[1].value))
    figures = (
        f"loss in points: {losses}; {test.column} first in {share:.0%} of the draws "
        f"({share_in_deviations:.0%} in standard deviations)"
    )
    return decided(scale, [figures], [_lead(tested, test.column)], lambda _: Evidence(1 - share, share))


def _lead(tested: Mapping[str, Difference], column: str) -> Difference:
    """By how much the column loses more than the other that loses most."""
    # The rival as it was measured: which column comes second is not certain, so that the seeds to decide are a rough guess.
    rival = max((each for name, each in tested.items() if name != column), key=lambda each: each.value)
    return combined([(1.0, tested[column]), (-1.0, rival)])


def _drawn_losses(chance: np.random.Generator, tested: Difference) -> tuple[np.ndarray, np.ndarray]:
    """(draws,) each: losses drawn from an estimate, in points and in standard deviations between pre-trainings (at least 0.1)."""
    # At least 0.1: a column that hardly varies by chance would make any loss many deviations.
    deviation = max(0.1, tested.error * (tested.n / 2) ** 0.5)
    # The error is itself an estimate: with few pre-trainings the true one may be much larger, which χ² draws.
    deviations = deviation * np.sqrt(tested.freedom / chance.chisquare(tested.freedom, DRAWS))
    losses = tested.value + deviations * (2 / tested.n) ** 0.5 * chance.standard_normal(DRAWS)
    return losses, losses / deviations


@rule("{column} loses less than the mean of the other columns from {first} to {second}", _two_columns, with_scores)
def loses_less_than_others(test: Test, scale: Scale) -> Verdict:
    """From the first row to the second, `column` loses less than the mean of the other columns, in points.

    Holds: the 95 % interval of (others' loss − its loss) over pre-trainings lies above zero. Fails: below.
    """
    (pair,) = test.contrasts
    columns = scale.telling(named(MEAN, test.columns), *test.rows)
    others = [column for column in columns if column != test.column]
    if test.column not in columns or not others:
        return Verdict(NOT_RUN, f"needs {test.column} and other columns better than the constant answer")
    # Tested is the difference of the two losses within each seed and not their two intervals, which share the seeds' effects.
    gains = [gain(scale, pair, test.column), gain(scale, pair, only=others)]
    tested = difference(_advantages(scale, test.column, others), pair.second, pair.first)
    figures = [each.said for each in gains if each]
    return decided(scale, figures, [tested], lambda known: sided(known[0]), needs="two pre-training seeds or more")


def _advantages(scale: Scale, column: str, others: Sequence[str]) -> dict[str, dict[int, float]]:
    """Row → pre-training seed → its score in `column` minus the mean of the others."""
    in_column, in_others = scale.by_seed([column]), scale.by_seed(others)
    return {
        row: {seed: scores[seed] - mean for seed, mean in in_others[row].items() if seed in scores}
        for row, scores in in_column.items()
        if row in in_others
    }
